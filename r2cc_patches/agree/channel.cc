#include "channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"

namespace r2cc::agree {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kLeastFrame = 16 + sizeof(Tag);

}  // namespace

bool Channel::fail(int error) {
  closedByPeer_ = error == 0 || error == ECONNRESET || error == EPIPE;
  why_ = error == 0 ? "closed by the other end" : std::strerror(error);
  return false;
}

bool Channel::fill() {
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

bool Channel::flush() {
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

void Channel::write(const std::vector<uint8_t>& bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }

void Channel::secure(const Key& in, const Key& out, size_t mostIn) {
  inKey_ = in;
  outKey_ = out;
  mostIn_ = mostIn + kLeastFrame;
}

void Channel::send(const Frame& frame) {
  const std::vector<uint8_t> message = encode(frame.message);
  std::vector<uint8_t> bytes;
  Writer w(bytes);
  w(static_cast<uint32_t>(message.size() + kLeastFrame)), w(frame.seq), w(frame.ack);
  bytes.insert(bytes.end(), message.begin(), message.end());
  w(frameTag(outKey_, framesOut_++, bytes.data(), bytes.size()));
  write(bytes);
}

std::optional<Frame> Channel::next() {
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
  const size_t signedBytes = kLengthBytes + length - sizeof(Tag);
  if (!sameTag(frameTag(inKey_, framesIn_, bytes, signedBytes), bytes + signedBytes)) {
    bad_ = true;
    return std::nullopt;
  }
  framesIn_++;
  Frame frame;
  Reader r(bytes + kLengthBytes, 16);
  r(frame.seq), r(frame.ack);
  auto message = decode(bytes + kLengthBytes + 16, length - kLeastFrame);
  take(kLengthBytes + length);
  if (!message) {
    bad_ = true;
    return std::nullopt;
  }
  frame.message = std::move(*message);
  return frame;
}

}  // namespace r2cc::agree
