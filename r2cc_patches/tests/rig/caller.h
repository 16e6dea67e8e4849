// Somebody who connects to a lane's listening socket and says what he likes.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "wire/wire.h"

namespace r2cc {

constexpr uint64_t kPublicMagic = 0x564ab9f2fc4b9d6c;  // what every NCCL says

class Caller {
 public:
  /// To the address that a handle of the fork's transports begins with.
  explicit Caller(const InnerHandle& handle) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    memcpy(&to, handle.data(), sizeof(to));
    connected = fd_ >= 0 && connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  ~Caller() {
    if (fd_ >= 0) close(fd_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  void say(const std::vector<uint8_t>& bytes) const {
    if (fd_ >= 0) (void)send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// As a socket of NCCL's begins: a number, what it is for, and what that transport adds.
  void greet(uint64_t magic, int type, const std::vector<uint8_t>& more) const {
    std::vector<uint8_t> bytes;
    Writer w(bytes);
    w(magic), w(type);
    bytes.insert(bytes.end(), more.begin(), more.end());
    say(bytes);
  }
  /// The other end closed it.
  bool refused() const {
    if (fd_ < 0) return false;
    char byte = 0;
    const timeval limit{2, 0};
    (void)setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    const ssize_t got = recv(fd_, &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  /// The other end has said something.
  bool told() const {
    pollfd ready{fd_, POLLIN, 0};
    return fd_ >= 0 && poll(&ready, 1, 0) > 0;
  }
  /// What the other end has said so far, and nobody has read.
  std::vector<uint8_t> heard() const {
    std::vector<uint8_t> bytes(1 << 16);
    const ssize_t got = fd_ < 0 ? 0 : recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }
  /// It leaves as a process that was killed: what it said and nobody has read is lost.
  void reset() {
    const linger now{1, 0};
    (void)setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd_);
    fd_ = -1;
  }
  bool connected = false;

 private:
  int fd_;
};

}  // namespace r2cc
