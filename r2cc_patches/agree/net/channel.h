// One TCP connection: length-bounded pieces in, bytes out. Frames are sealed; the first thing that is not genuine ends
// it. It never blocks.
//
//   frame: length u32 of what follows | seq u64 | ack u64 | message | tag of 16 bytes
//
// With R2CC_TLS=1 all between length and tag is encrypted, and the tag is AES-GCM's: as long, and over the same.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "agree/net/socket.h"
#include "agree/protocol/message.h"
#include "agree/protocol/secrets.h"
#include "base/bytes.h"

namespace r2cc::agree {

constexpr size_t kLeastFrame = 16 + sizeof(Tag);

struct Frame {
  uint64_t seq = 0;  // 0: not counted, never repeated (Ping)
  uint64_t ack = 0;  // everything up to this has come
  Message message;
};

class Channel {
 public:
  explicit Channel(Fd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  const Fd& socket() const { return fd_; }
  bool wantsToWrite() const { return sent_ < out_.size(); }

  /// Reads what is there, as far as there is room. False: the other end closed it, or it failed; why() says which.
  bool fill() {
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    // Room for one whole frame and a bit: whoever sends faster than we act on it waits in the kernel.
    const size_t had = in_.size();
    const size_t room = mostIn_ + kLengthBytes > had ? mostIn_ + kLengthBytes - had : 0;
    if (room == 0) return true;
    in_.resize(had + room);
    const ssize_t n = recv(fd_.get(), in_.data() + had, room, 0);
    const int error = errno;
    in_.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n > 0) return true;
    if (n == 0) return fail(0);
    return error == EAGAIN || error == EINTR ? true : fail(error);
  }
  /// Sends what the socket takes. False as above.
  bool flush() {
    if (!unsealed_.empty()) return why_ = unsealed_, false;
    while (wantsToWrite()) {
      const ssize_t n = ::send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN ? true : fail(errno);
      sent_ += static_cast<size_t>(n);
    }
    out_.clear();
    sent_ = 0;
    return true;
  }
  void write(const std::vector<uint8_t>& bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }

  /// `size` bytes from the front, once they are there.
  const uint8_t* peek(size_t size) const { return in_.size() - taken_ >= size ? in_.data() + taken_ : nullptr; }
  void take(size_t size) { taken_ += size; }

  /// From now on frames, of at most `mostIn` bytes each.
  void secure(const FrameKey& in, const FrameKey& out, size_t mostIn) {
    inKey_ = in;
    outKey_ = out;
    mostIn_ = mostIn + kLeastFrame;
  }
  void send(const Frame& frame) {
    const std::vector<uint8_t> message = encode(frame.message);
    std::vector<uint8_t> bytes;
    Writer w(bytes);
    w(static_cast<uint32_t>(message.size() + kLeastFrame)), w(frame.seq), w(frame.ack);
    bytes.insert(bytes.end(), message.begin(), message.end());
    try {
      sealFrame(outKey_, framesOut_++, bytes);
    } catch (const std::exception& problem) {  // nothing goes in the clear instead
      unsealed_ = problem.what();
      return;
    }
    write(bytes);
  }
  /// The next whole frame. bad() afterwards: what came was none of ours.
  std::optional<Frame> next() {
    const uint8_t* head = bad_ ? nullptr : peek(kLengthBytes);
    if (head == nullptr) return std::nullopt;
    uint32_t length = 0;
    Reader lengthReader(head, kLengthBytes);
    lengthReader(length);
    if (length < kLeastFrame || length > mostIn_) {
      bad_ = true;
      return std::nullopt;
    }
    const uint8_t* bytes = peek(kLengthBytes + length);
    if (bytes == nullptr) return std::nullopt;
    const uint8_t* content = openFrame(inKey_, framesIn_, bytes, kLengthBytes + length, plain_);
    if (content == nullptr) {
      bad_ = true;
      return std::nullopt;
    }
    framesIn_++;
    Frame frame;
    Reader r(content, 16);
    r(frame.seq), r(frame.ack);
    auto message = decode(content + 16, length - kLeastFrame);
    take(kLengthBytes + length);
    if (!message) {
      bad_ = true;
      return std::nullopt;
    }
    frame.message = std::move(*message);
    return frame;
  }
  bool bad() const { return bad_; }
  /// The other end closed it, in whatever way, rather than that nothing was heard any more.
  bool closedByPeer() const { return closedByPeer_; }
  const std::string& why() const { return why_; }

 private:
  bool fail(int error) {
    closedByPeer_ = error == 0 || error == ECONNRESET || error == EPIPE;
    why_ = error == 0 ? "closed by the other end" : std::strerror(error);
    return false;
  }

  Fd fd_;
  std::vector<uint8_t> in_, out_;
  size_t taken_ = 0, sent_ = 0;
  size_t mostIn_ = kHelloBytes + kWelcomeBytes;
  FrameKey inKey_, outKey_;
  std::vector<uint8_t> plain_;  // of the frame that is read, where it was encrypted
  uint64_t framesIn_ = 0, framesOut_ = 0;
  bool bad_ = false, closedByPeer_ = false;
  std::string why_, unsealed_;
};

}  // namespace r2cc::agree
