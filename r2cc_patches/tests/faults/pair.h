// A TCP connection on the loopback between two addresses of this process, so that a rule can hit one end alone.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <stdexcept>
#include <string>

#include "base/fd.h"

namespace r2cc::faults {

constexpr char kNic[] = "127.0.0.2";
constexpr char kOther[] = "127.0.0.1";

inline sockaddr_in addressOf(const char* ip, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, ip, &address.sin_addr);
  return address;
}

inline sockaddr* generic(sockaddr_in* address) { return reinterpret_cast<sockaddr*>(address); }
inline const sockaddr* generic(const sockaddr_in* address) { return reinterpret_cast<const sockaddr*>(address); }

inline int must(int result) {
  if (result < 0) throw std::runtime_error("no connection on the loopback");
  return result;
}

/// Where a socket of ours is.
inline sockaddr_in named(int fd) {
  sockaddr_in found{};
  socklen_t size = sizeof(found);
  must(getsockname(fd, generic(&found), &size));
  return found;
}

/// A socket that listens there.
inline Fd doorOn(const char* ip) {
  Fd door(must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  const sockaddr_in there = addressOf(ip, 0);
  must(bind(door.get(), generic(&there), sizeof(there)));
  must(listen(door.get(), 1));
  return door;
}

/// `mine` is on kNic, `theirs` on kOther.
struct Pair {
  Fd mine, theirs;

  Pair() {
    const Fd door = doorOn(kOther);
    mine = Fd(must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    const sockaddr_in here = addressOf(kNic, 0), there = named(door.get());
    must(bind(mine.get(), generic(&here), sizeof(here)));
    must(connect(mine.get(), generic(&there), sizeof(there)));
    theirs = Fd(must(accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }

  static bool readable(int fd, int limitMs) {
    pollfd asked = {fd, POLLIN, 0};
    return poll(&asked, 1, limitMs) == 1;
  }
};

}  // namespace r2cc::faults
