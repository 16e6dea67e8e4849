// The calls that this library takes over where it is preloaded (LD_PRELOAD): each does what libc's does, unless the
// connection is broken by a rule. Resets, deafness and pacing need no call: the watcher does them to the socket itself.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "faults/sockets.h"
#include "faults/watcher.h"

#define R2CC_CALL extern "C" __attribute__((visibility("default")))

namespace {

using r2cc::faults::Limit;

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

Limit limitOf(int fd) {
  const r2cc::faults::Book* const book = r2cc::faults::book();
  if (book == nullptr || book->empty()) return {};
  const int before = errno;
  const uint64_t cookie = r2cc::faults::cookieOf(fd);
  errno = before;
  return cookie == 0 ? Limit{} : book->of(cookie);
}

bool waits(int fd, int flags) { return (flags & MSG_DONTWAIT) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

/// Of a call that sends: how much it may send now. False: nothing, and errno says so. A call that may wait does, until
/// the rule is gone.
bool maySend(int fd, int flags, Limit& limit) {
  constexpr timespec kTick = {0, 1'000'000};
  while ((limit = limitOf(fd)).silent) {
    if (!waits(fd, flags)) {
      errno = EAGAIN;
      return false;
    }
    (void)nanosleep(&kTick, nullptr);
  }
  return true;
}

size_t atMost(size_t size, const Limit& limit) {
  return limit.mostBytes == 0 ? size : std::min<size_t>(size, limit.mostBytes);
}

/// Of a call that receives; who asks for all of it is not given less.
size_t mayReceive(int fd, size_t size, int flags) {
  return (flags & MSG_WAITALL) != 0 ? size : atMost(size, limitOf(fd));
}

/// The first piece that is not empty, cut: what a short call on several would have moved.
iovec firstOf(const iovec* pieces, size_t count, const Limit& limit) {
  size_t n = 0;
  while (n + 1 < count && pieces[n].iov_len == 0) n++;
  return {pieces[n].iov_base, atMost(pieces[n].iov_len, limit)};
}

}  // namespace

R2CC_CALL int socket(int domain, int type, int protocol) noexcept {
  static const auto real = next<int(int, int, int)>("socket");
  constexpr int kTypes = 0xf;
  if ((domain == AF_INET || domain == AF_INET6) && (type & kTypes) == SOCK_STREAM) r2cc::faults::watch();
  return real(domain, type, protocol);
}

R2CC_CALL ssize_t send(int fd, const void* data, size_t size, int flags) {
  static const auto real = next<ssize_t(int, const void*, size_t, int)>("send");
  Limit limit;
  return maySend(fd, flags, limit) ? real(fd, data, atMost(size, limit), flags) : -1;
}

R2CC_CALL ssize_t sendto(int fd, const void* data, size_t size, int flags, const sockaddr* to, socklen_t length) {
  static const auto real = next<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)>("sendto");
  Limit limit;
  return maySend(fd, flags, limit) ? real(fd, data, atMost(size, limit), flags, to, length) : -1;
}

R2CC_CALL ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto real = next<ssize_t(int, const msghdr*, int)>("sendmsg");
  Limit limit;
  if (!maySend(fd, flags, limit)) return -1;
  if (limit.mostBytes == 0 || message->msg_iovlen == 0) return real(fd, message, flags);
  msghdr less = *message;
  iovec first = firstOf(message->msg_iov, message->msg_iovlen, limit);
  less.msg_iov = &first;
  less.msg_iovlen = 1;
  return real(fd, &less, flags);
}

R2CC_CALL ssize_t write(int fd, const void* data, size_t size) {
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  Limit limit;
  return maySend(fd, 0, limit) ? real(fd, data, atMost(size, limit)) : -1;
}

R2CC_CALL ssize_t writev(int fd, const iovec* pieces, int count) {
  static const auto real = next<ssize_t(int, const iovec*, int)>("writev");
  Limit limit;
  if (!maySend(fd, 0, limit)) return -1;
  if (limit.mostBytes == 0 || count <= 0) return real(fd, pieces, count);
  const iovec first = firstOf(pieces, static_cast<size_t>(count), limit);
  return real(fd, &first, 1);
}

R2CC_CALL ssize_t recv(int fd, void* data, size_t size, int flags) {
  static const auto real = next<ssize_t(int, void*, size_t, int)>("recv");
  return real(fd, data, mayReceive(fd, size, flags), flags);
}

R2CC_CALL ssize_t recvfrom(int fd, void* data, size_t size, int flags, sockaddr* from, socklen_t* length) {
  static const auto real = next<ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*)>("recvfrom");
  return real(fd, data, mayReceive(fd, size, flags), flags, from, length);
}

R2CC_CALL ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto real = next<ssize_t(int, msghdr*, int)>("recvmsg");
  const Limit limit = (flags & MSG_WAITALL) != 0 ? Limit{} : limitOf(fd);
  if (limit.mostBytes == 0 || message->msg_iovlen == 0) return real(fd, message, flags);
  iovec* const pieces = message->msg_iov;
  const size_t count = message->msg_iovlen;
  iovec first = firstOf(pieces, count, limit);
  message->msg_iov = &first;
  message->msg_iovlen = 1;
  const ssize_t got = real(fd, message, flags);
  message->msg_iov = pieces;
  message->msg_iovlen = count;
  return got;
}

R2CC_CALL ssize_t read(int fd, void* data, size_t size) {
  static const auto real = next<ssize_t(int, void*, size_t)>("read");
  return real(fd, data, mayReceive(fd, size, 0));
}

R2CC_CALL ssize_t readv(int fd, const iovec* pieces, int count) {
  static const auto real = next<ssize_t(int, const iovec*, int)>("readv");
  const Limit limit = limitOf(fd);
  if (limit.mostBytes == 0 || count <= 0) return real(fd, pieces, count);
  const iovec first = firstOf(pieces, static_cast<size_t>(count), limit);
  return real(fd, &first, 1);
}

// What a compiler makes of the above where it knows how large the buffer is (_FORTIFY_SOURCE).

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): these are libc's own names.
R2CC_CALL ssize_t __recv_chk(int fd, void* data, size_t size, size_t room, int flags) {
  static const auto real = next<ssize_t(int, void*, size_t, size_t, int)>("__recv_chk");
  return real(fd, data, mayReceive(fd, size, flags), room, flags);
}

R2CC_CALL ssize_t __recvfrom_chk(int fd, void* data, size_t size, size_t room, int flags, sockaddr* from,
                                 socklen_t* length) {
  static const auto real = next<ssize_t(int, void*, size_t, size_t, int, sockaddr*, socklen_t*)>("__recvfrom_chk");
  return real(fd, data, mayReceive(fd, size, flags), room, flags, from, length);
}

R2CC_CALL ssize_t __read_chk(int fd, void* data, size_t size, size_t room) {
  static const auto real = next<ssize_t(int, void*, size_t, size_t)>("__read_chk");
  return real(fd, data, mayReceive(fd, size, 0), room);
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
