// Messages of the bootstrap connections: a fixed header, then bytes. Nothing is trusted before it is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace r2cc::bench {

enum class FrameType : uint16_t { Hello = 1, Welcome = 2, Gather = 3, Fail = 4 };

struct Frame {
  FrameType type;
  std::string payload;
};

// What came is no frame of ours: the connection is closed, the run goes on if it was a stranger's.
class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string encodeFrame(FrameType type, const std::string& payload);

// Puts frames together from pieces of any size.
class FrameReader {
 public:
  explicit FrameReader(size_t maxPayload) : maxPayload_(maxPayload) {}

  void feed(const char* data, size_t size) { buffer_.append(data, size); }
  // Throws ProtocolError as soon as the header shows a wrong magic, type or length; never waits for the rest of such a
  // frame.
  std::optional<Frame> next();
  void allow(size_t maxPayload) { maxPayload_ = maxPayload; }

 private:
  size_t maxPayload_;
  std::string buffer_;
};

struct Hello {
  uint32_t version;
  uint32_t rank;
  uint32_t ranks;
  uint32_t reserved;
  uint64_t nonce;
};

constexpr uint32_t kProtocolVersion = 1;

std::string encodeHello(const Hello& hello);
Hello decodeHello(const std::string& payload);  // throws ProtocolError

// FNV-1a (Fowler, Noll, Vo). Keeps runs apart; it is no secret and no authentication.
uint64_t nonceOf(const std::string& text);

// A list of strings as one payload and back. decodeList throws ProtocolError.
std::string encodeList(const std::string* items, size_t count);
void decodeList(const std::string& payload, std::string* items, size_t count);

}  // namespace r2cc::bench
