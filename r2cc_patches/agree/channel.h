// One TCP connection: length-bounded pieces in, bytes out. Frames are sealed; the first thing that is not genuine ends
// it. It never blocks.
//
//   frame: length u32 of what follows | seq u64 | ack u64 | message | tag of 16 bytes
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "message.h"
#include "secrets.h"
#include "socket.h"

namespace r2cc::agree {

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
  bool fill();
  /// Sends what the socket takes. False as above.
  bool flush();
  void write(const std::vector<uint8_t>& bytes);

  /// `size` bytes from the front, once they are there.
  const uint8_t* peek(size_t size) const { return in_.size() - taken_ >= size ? in_.data() + taken_ : nullptr; }
  void take(size_t size) { taken_ += size; }

  /// From now on frames, of at most `mostIn` bytes each.
  void secure(const Key& in, const Key& out, size_t mostIn);
  void send(const Frame& frame);
  /// The next whole frame. bad() afterwards: what came was none of ours.
  std::optional<Frame> next();
  bool bad() const { return bad_; }
  /// The other end closed it, in whatever way, rather than that nothing was heard any more.
  bool closedByPeer() const { return closedByPeer_; }
  const std::string& why() const { return why_; }

 private:
  bool fail(int error);

  Fd fd_;
  std::vector<uint8_t> in_, out_;
  size_t taken_ = 0, sent_ = 0;
  size_t mostIn_ = kHelloBytes + kWelcomeBytes;
  Key inKey_{}, outKey_{};
  uint64_t framesIn_ = 0, framesOut_ = 0;
  bool bad_ = false, closedByPeer_ = false;
  std::string why_;
};

}  // namespace r2cc::agree
