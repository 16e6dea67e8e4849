#include "agree/net/socket.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace r2cc::agree {
namespace {

constexpr int kBacklog = 4096;
constexpr int kDeferS = 3;  // who says nothing stays with the kernel for so long

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.storage); }

void setInt(const Fd& fd, int level, int option, int value) {
  (void)setsockopt(fd.get(), level, option, &value, sizeof(value));  // all of them only help
}

Fd newSocket(int family) { return Fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

std::string Address::text() const {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int flags = NI_NUMERICHOST | NI_NUMERICSERV;
  if (getnameinfo(generic(*this), length, host, sizeof(host), port, sizeof(port), flags) != 0) return "no address";
  return storage.ss_family == AF_INET6 ? "[" + std::string(host) + "]:" + port : std::string(host) + ":" + port;
}

Address parseAddress(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw std::invalid_argument("not a numeric address: '" + host + "': " + gai_strerror(error));
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

Address addressFor(const std::string& host, uint16_t port, const Address& from) {
  Address to = parseAddress(host.substr(0, host.find('%')), port);
  auto& there = reinterpret_cast<sockaddr_in6&>(to.storage);
  const auto& here = reinterpret_cast<const sockaddr_in6&>(from.storage);
  const bool local = to.storage.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&there.sin6_addr);
  if (local && from.storage.ss_family == AF_INET6) there.sin6_scope_id = here.sin6_scope_id;
  return to;
}

Fd listenOn(const Address& address) {
  Fd fd = newSocket(address.storage.ss_family);
  if (!fd.valid() || bind(fd.get(), generic(address), address.length) < 0 || listen(fd.get(), kBacklog) < 0) {
    throw std::runtime_error("the agreement cannot listen on " + address.text() + ": " + std::strerror(errno));
  }
  setInt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, kDeferS);
  return fd;
}

Address boundTo(const Fd& listener) {
  Address address;
  address.length = sizeof(address.storage);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) < 0) {
    throw std::runtime_error(std::string("getsockname: ") + std::strerror(errno));
  }
  return address;
}

uint16_t portOf(const Address& address) {
  // The port lies at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
}

Fd startConnecting(const Address& from, const Address& to) {
  Fd fd = newSocket(to.storage.ss_family);
  if (!fd.valid()) return fd;
  setInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // From the interface that was asked for; where that cannot be, the kernel knows a way or says why not.
  const bool same = from.storage.ss_family == to.storage.ss_family;
  if (same && bind(fd.get(), generic(from), from.length) < 0) errno = 0;
  if (connect(fd.get(), generic(to), to.length) < 0 && errno != EINPROGRESS) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

int connectResult(const Fd& socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) < 0) return errno;
  return error;
}

Fd acceptFrom(const Fd& listener) {
  Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) setInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  return fd;
}

}  // namespace r2cc::agree
