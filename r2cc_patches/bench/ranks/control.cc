#include "bench/ranks/control.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "bench/errors.h"

namespace r2cc::bench {
namespace {

constexpr int kSendTimeoutS = 10;

void setInt(int fd, int level, int option, int value) { (void)setsockopt(fd, level, option, &value, sizeof(value)); }

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.storage); }

void setBlocking(int fd, bool blocking) {
  const int flags = fcntl(fd, F_GETFL);
  (void)fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

}  // namespace

Fd listenAsRoot(const Address& address) {
  Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid()) setInt(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (!fd.valid() || bind(fd.get(), generic(address), address.length) < 0 || listen(fd.get(), 128) < 0) {
    throw TransportError(std::string("rank 0 cannot listen on its --root address: ") + std::strerror(errno));
  }
  return fd;
}

Fd tryConnect(const Address& address, int timeoutMs) {
  Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) throw TransportError(std::string("socket: ") + std::strerror(errno));
  if (connect(fd.get(), generic(address), address.length) < 0 && errno != EINPROGRESS) return Fd();
  pollfd waiting{fd.get(), POLLOUT, 0};
  if (poll(&waiting, 1, timeoutMs) <= 0) return Fd();
  return agree::connectResult(fd) == 0 ? std::move(fd) : Fd();
}

std::string localHost(int fd) {
  Address address;
  address.length = sizeof(address.storage);
  char host[NI_MAXHOST];
  auto* const own = reinterpret_cast<sockaddr*>(&address.storage);
  if (getsockname(fd, own, &address.length) != 0 ||
      getnameinfo(own, address.length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    throw TransportError("the control connection's own address cannot be told");
  }
  return host;
}

void watchLiveness(int fd) {
  setBlocking(fd, true);  // sends block, receives ask with MSG_DONTWAIT
  const timeval timeout{kSendTimeoutS, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  setInt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setInt(fd, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  setInt(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  setInt(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  setInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

bool ControlLink::send(FrameType type, const std::string& payload) const {
  const std::string bytes = encodeFrame(type, payload);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::send(fd_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool ControlLink::receive() {
  char buffer[65536];
  const ssize_t n = recv(fd_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (n == 0) return false;
  reader_.feed(buffer, static_cast<size_t>(n));
  while (auto frame = reader_.next()) frames.push_back(std::move(*frame));
  return true;
}

}  // namespace r2cc::bench
