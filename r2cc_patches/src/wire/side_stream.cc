#include "wire/side_stream.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "inner/tcp_sample.h"
#include "nic/bind_nic.h"
#include "nic/tcp_tune.h"

namespace r2cc {
namespace {

constexpr size_t kLengthBytes = 2;
constexpr size_t kReadAtOnce = 16384;
// The kernel's numbers: the C library's header for TCP cannot be read beside the kernel's (tcp_sample.h).
constexpr int kNoDelay = 1;
constexpr int kUserTimeout = 18;
constexpr int kGiveUpMs = 10000;  // the kernel ends it when what was sent is not confirmed for so long

void tune(int fd) {
  const int on = 1;
  const int urgent = 6;  // as side_channel.cc
  (void)setsockopt(fd, IPPROTO_TCP, kNoDelay, &on, sizeof(on));
  (void)setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &urgent, sizeof(urgent));
  (void)setsockopt(fd, IPPROTO_TCP, kUserTimeout, &kGiveUpMs, sizeof(kGiveUpMs));
  tcpTune(fd);  // what is lost in a full queue is sent again after 8 ms, not 200: a verdict waits for it
}

}  // namespace

SideStreamPtr SideStream::connect(const LocalNic& nic, const NicAddress& to, bool acks, bool freely) {
  NicAddress target = to;
  if (acks) target.port = to.ackPort;
  if (target.port == 0 || nic.address.family != target.family) return nullptr;
  const int fd = socket(target.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  auto stream = std::make_shared<SideStream>(fd, nic.address.dev, target, acks);
  stream->up_ = false;
  stream->ours = true;
  NicAddress source = nic.address;
  source.port = 0;
  const sockaddr_storage from = source.sockaddr();
  const sockaddr_storage address = target.sockaddr();
  const socklen_t size = address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const bool bound =
      freely ? bind(fd, reinterpret_cast<const sockaddr*>(&from), size) == 0 : bindToNic(fd, nic.name, from, address);
  if (!bound) return nullptr;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 && errno != EINPROGRESS) {
    if (errno != ECONNREFUSED) return nullptr;
    stream->refused_ = true;  // at once, as on one's own host: told as any other refusal is, by its descriptor
  }
  return stream;
}

SideStream::SideStream(int fd, size_t nic, const NicAddress& from, bool acks)
    : nic(nic), from(from), acks(acks), sinceNs(runNs()), fd_(fd), up_(true) {
  tune(fd);
}

SideStream::~SideStream() { close(fd_); }

bool SideStream::up() {
  if (up_) return true;
  pollfd ready{fd_, POLLOUT, 0};
  if (poll(&ready, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t size = sizeof(error);
  (void)getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  refused_ = refused_ || error == ECONNREFUSED;
  up_ = error == 0 && (ready.revents & POLLHUP) == 0;
  return up_;
}

bool SideStream::flush() {
  while (!pending_.empty()) {
    const ssize_t sent = ::send(fd_, pending_.data(), pending_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0) return false;
    pending_.erase(pending_.begin(), pending_.begin() + sent);
  }
  return true;
}

bool SideStream::send(const std::vector<uint8_t>& bytes) {
  if (bytes.size() > kMaxDatagram) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!up() || !flush()) return false;
  uint8_t length[kLengthBytes] = {static_cast<uint8_t>(bytes.size()), static_cast<uint8_t>(bytes.size() >> 8)};
  const iovec parts[] = {{length, kLengthBytes}, {const_cast<uint8_t*>(bytes.data()), bytes.size()}};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = 2;
  const ssize_t sent = sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent <= 0) return false;
  for (size_t at = static_cast<size_t>(sent); at < kLengthBytes + bytes.size(); at++) {
    pending_.push_back(at < kLengthBytes ? length[at] : bytes[at - kLengthBytes]);
  }
  return true;
}

bool SideStream::read(const OnDatagram& datagram) {
  const size_t had = inbox_.size();
  inbox_.resize(had + kReadAtOnce);
  const ssize_t got = recv(fd_, inbox_.data() + had, kReadAtOnce, MSG_DONTWAIT);
  inbox_.resize(had + static_cast<size_t>(got > 0 ? got : 0));
  if (got <= 0) {
    const bool waits = got < 0 && (errno == EAGAIN || errno == EINTR);
    refused_ = refused_ || (!waits && got < 0 && (errno == ECONNREFUSED || errno == ECONNRESET));
    return waits;
  }
  up_ = true;
  size_t at = 0;
  while (inbox_.size() - at >= kLengthBytes) {
    const size_t size = inbox_[at] | size_t{inbox_[at + 1]} << 8;
    if (size == 0 || size > kMaxDatagram + kLengthBytes + 64) return false;  // no R2CC wrote this
    if (inbox_.size() - at - kLengthBytes < size) break;
    datagram(inbox_.data() + at + kLengthBytes, size);
    at += kLengthBytes + size;
  }
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

int64_t SideStream::quietNs() const {
  LaneSample sample;
  return tcpSample(fd_, &sample) ? sample.quietNs : INT64_MAX / 2;
}

int64_t SideStream::unconfirmedNs() const {
  LaneSample sample;
  return tcpSample(fd_, &sample) && sample.waits ? sample.quietNs : 0;
}

uint32_t SideStream::resent() const {
  LaneSample sample;
  return tcpSample(fd_, &sample) ? static_cast<uint32_t>(sample.resent) : UINT32_MAX;
}

}  // namespace r2cc
