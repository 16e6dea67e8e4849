// A file descriptor with one owner, and how to wait for many.
#pragma once

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <utility>

namespace r2cc {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  /// Takes the other's place under its own number, which may be in use by other threads.
  void become(Fd&& fresh) {
    if (!valid()) {
      *this = std::move(fresh);
    } else if (dup3(fresh.fd_, fd_, O_CLOEXEC) == fd_) {
      fresh.reset();
    }
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

/// Waits for descriptors, each of which is known by a tag.
class Epoll {
 public:
  /// Throws std::runtime_error when there is no descriptor left.
  Epoll() : fd_(epoll_create1(EPOLL_CLOEXEC)) {
    if (!fd_.valid()) throw std::runtime_error("out of file descriptors");
  }
  /// False: the kernel takes no more.
  bool add(int fd, uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    return epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }
  void remove(int fd) { (void)epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  /// How many of `events` were filled; none is waited for longer than `limitMs`.
  template <int Most>
  int wait(epoll_event (&events)[Most], int limitMs) const {
    return epoll_wait(fd_.get(), events, Most, limitMs);
  }

 private:
  Fd fd_;
};

}  // namespace r2cc
