// The calls that this library takes over where it is preloaded (LD_PRELOAD): each does what libc's does, unless the
// calls on it have to be short, or a connection must not be made. The watcher does all else to the sockets themselves.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "faults/sockets.h"
#include "faults/watcher.h"

#define R2CC_CALL extern "C" __attribute__((visibility("default")))

namespace {

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// How much a call on this may move; 0: any.
uint64_t mostOf(int fd) {
  const r2cc::faults::Book* const book = r2cc::faults::book();
  if (book == nullptr || book->empty()) return 0;
  const int before = errno;
  const uint64_t cookie = r2cc::faults::cookieOf(fd);
  errno = before;
  return cookie == 0 ? 0 : book->mostBytes(cookie);
}

size_t cut(size_t size, uint64_t most) { return most == 0 ? size : std::min<size_t>(size, most); }

/// Who asks for all of it is not given less.
uint64_t mostOf(int fd, int flags) { return (flags & MSG_WAITALL) != 0 ? 0 : mostOf(fd); }

/// The first piece that is not empty, cut: what a short call on several would have moved.
iovec firstOf(const iovec* pieces, size_t count, uint64_t most) {
  size_t n = 0;
  while (n + 1 < count && pieces[n].iov_len == 0) n++;
  return {pieces[n].iov_base, cut(pieces[n].iov_len, most)};
}

}  // namespace

R2CC_CALL int socket(int domain, int type, int protocol) noexcept {
  static const auto real = next<int(int, int, int)>("socket");
  constexpr int kTypes = 0xf;
  if ((domain == AF_INET || domain == AF_INET6) && (type & kTypes) == SOCK_STREAM) r2cc::faults::watch();
  return real(domain, type, protocol);
}

R2CC_CALL int connect(int fd, const sockaddr* to, socklen_t size) {
  static const auto real = next<int(int, const sockaddr*, socklen_t)>("connect");
  r2cc::faults::Book* const book = r2cc::faults::book();
  if (book != nullptr && book->silences()) {
    const auto silence = [fd] { return r2cc::faults::deafen(fd); };
    if (const auto ends = r2cc::faults::endsTo(fd, to, size))
      book->silenceNew(r2cc::faults::cookieOf(fd), *ends, silence);
  }
  return real(fd, to, size);
}

R2CC_CALL ssize_t send(int fd, const void* data, size_t size, int flags) {
  static const auto real = next<ssize_t(int, const void*, size_t, int)>("send");
  return real(fd, data, cut(size, mostOf(fd)), flags);
}

R2CC_CALL ssize_t sendto(int fd, const void* data, size_t size, int flags, const sockaddr* to, socklen_t length) {
  static const auto real = next<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)>("sendto");
  return real(fd, data, cut(size, mostOf(fd)), flags, to, length);
}

R2CC_CALL ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto real = next<ssize_t(int, const msghdr*, int)>("sendmsg");
  const uint64_t most = mostOf(fd);
  if (most == 0 || message->msg_iovlen == 0) return real(fd, message, flags);
  msghdr less = *message;
  iovec first = firstOf(message->msg_iov, message->msg_iovlen, most);
  less.msg_iov = &first;
  less.msg_iovlen = 1;
  return real(fd, &less, flags);
}

R2CC_CALL ssize_t write(int fd, const void* data, size_t size) {
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  return real(fd, data, cut(size, mostOf(fd)));
}

R2CC_CALL ssize_t writev(int fd, const iovec* pieces, int count) {
  static const auto real = next<ssize_t(int, const iovec*, int)>("writev");
  const uint64_t most = mostOf(fd);
  if (most == 0 || count <= 0) return real(fd, pieces, count);
  const iovec first = firstOf(pieces, static_cast<size_t>(count), most);
  return real(fd, &first, 1);
}

R2CC_CALL ssize_t recv(int fd, void* data, size_t size, int flags) {
  static const auto real = next<ssize_t(int, void*, size_t, int)>("recv");
  return real(fd, data, cut(size, mostOf(fd, flags)), flags);
}

R2CC_CALL ssize_t recvfrom(int fd, void* data, size_t size, int flags, sockaddr* from, socklen_t* length) {
  static const auto real = next<ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*)>("recvfrom");
  return real(fd, data, cut(size, mostOf(fd, flags)), flags, from, length);
}

R2CC_CALL ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto real = next<ssize_t(int, msghdr*, int)>("recvmsg");
  const uint64_t most = mostOf(fd, flags);
  if (most == 0 || message->msg_iovlen == 0) return real(fd, message, flags);
  iovec* const pieces = message->msg_iov;
  const size_t count = message->msg_iovlen;
  iovec first = firstOf(pieces, count, most);
  message->msg_iov = &first;
  message->msg_iovlen = 1;
  const ssize_t got = real(fd, message, flags);
  message->msg_iov = pieces;
  message->msg_iovlen = count;
  return got;
}

R2CC_CALL ssize_t read(int fd, void* data, size_t size) {
  static const auto real = next<ssize_t(int, void*, size_t)>("read");
  return real(fd, data, cut(size, mostOf(fd)));
}

R2CC_CALL ssize_t readv(int fd, const iovec* pieces, int count) {
  static const auto real = next<ssize_t(int, const iovec*, int)>("readv");
  const uint64_t most = mostOf(fd);
  if (most == 0 || count <= 0) return real(fd, pieces, count);
  const iovec first = firstOf(pieces, static_cast<size_t>(count), most);
  return real(fd, &first, 1);
}

// What a compiler makes of the above where it knows how large the buffer is (_FORTIFY_SOURCE).

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): these are libc's own names.
R2CC_CALL ssize_t __recv_chk(int fd, void* data, size_t size, size_t room, int flags) {
  static const auto real = next<ssize_t(int, void*, size_t, size_t, int)>("__recv_chk");
  return real(fd, data, cut(size, mostOf(fd, flags)), room, flags);
}

R2CC_CALL ssize_t __recvfrom_chk(int fd, void* data, size_t size, size_t room, int flags, sockaddr* from,
                                 socklen_t* length) {
  static const auto real = next<ssize_t(int, void*, size_t, size_t, int, sockaddr*, socklen_t*)>("__recvfrom_chk");
  return real(fd, data, cut(size, mostOf(fd, flags)), room, flags, from, length);
}

R2CC_CALL ssize_t __read_chk(int fd, void* data, size_t size, size_t room) {
  static const auto real = next<ssize_t(int, void*, size_t, size_t)>("__read_chk");
  return real(fd, data, cut(size, mostOf(fd)), room);
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
