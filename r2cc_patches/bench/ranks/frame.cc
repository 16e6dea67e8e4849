#include "bench/ranks/frame.h"

#include <cstring>

namespace r2cc::bench {
namespace {

constexpr uint32_t kMagic = 0x42633252;  // "R2cB"

struct Header {
  uint32_t magic;
  uint16_t type;
  uint16_t reserved;
  uint64_t length;
};

bool known(uint16_t type) {
  return type >= static_cast<uint16_t>(FrameType::Hello) && type <= static_cast<uint16_t>(FrameType::Fail);
}

}  // namespace

std::string encodeFrame(FrameType type, const std::string& payload) {
  const Header header{kMagic, static_cast<uint16_t>(type), 0, payload.size()};
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + payload;
}

std::optional<Frame> FrameReader::next() {
  Header header{};
  // The magic is judged as soon as it is there: a stranger need not send a whole header to be turned away.
  if (buffer_.size() < sizeof(header.magic)) return std::nullopt;
  std::memcpy(&header.magic, buffer_.data(), sizeof(header.magic));
  if (header.magic != kMagic) throw ProtocolError("no bootstrap message (wrong magic)");
  if (buffer_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, buffer_.data(), sizeof(header));
  if (!known(header.type) || header.reserved != 0) throw ProtocolError("bootstrap message of unknown type");
  if (header.length > maxPayload_)
    throw ProtocolError("bootstrap message of " + std::to_string(header.length) + " bytes");
  const size_t total = sizeof(header) + static_cast<size_t>(header.length);
  if (buffer_.size() < total) return std::nullopt;
  Frame frame{static_cast<FrameType>(header.type), buffer_.substr(sizeof(header), total - sizeof(header))};
  buffer_.erase(0, total);
  return frame;
}

std::string encodeHello(const Hello& hello) {
  return std::string(reinterpret_cast<const char*>(&hello), sizeof(hello));
}

Hello decodeHello(const std::string& payload) {
  Hello hello{};
  if (payload.size() != sizeof(hello)) throw ProtocolError("hello of " + std::to_string(payload.size()) + " bytes");
  std::memcpy(&hello, payload.data(), sizeof(hello));
  return hello;
}

uint64_t nonceOf(const std::string& text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

std::string encodeList(const std::string* items, size_t count) {
  std::string payload;
  for (size_t i = 0; i < count; i++) {
    const uint64_t size = items[i].size();
    payload.append(reinterpret_cast<const char*>(&size), sizeof(size));
    payload += items[i];
  }
  return payload;
}

void decodeList(const std::string& payload, std::string* items, size_t count) {
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t size = 0;
    if (payload.size() - at < sizeof(size)) throw ProtocolError("list cut short");
    std::memcpy(&size, payload.data() + at, sizeof(size));
    at += sizeof(size);
    if (payload.size() - at < size) throw ProtocolError("list item longer than the list");
    items[i] = payload.substr(at, static_cast<size_t>(size));
    at += static_cast<size_t>(size);
  }
  if (at != payload.size()) throw ProtocolError("list with bytes left over");
}

}  // namespace r2cc::bench
