// A loopback port of this process's own, and raw connections to it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace r2cc::test {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// Nobody else's for as long as this process lives: a socket that never listens keeps it, and one that says
/// SO_REUSEADDR, as a bootstrap's does, may listen there. 0: there is none.
inline uint16_t freePort() {
  Fd fd(socket(AF_INET, SOCK_STREAM, 0));
  if (!fd.valid()) return 0;
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof(address);
  const int yes = 1;  // only after bind(): a port that is chosen with it may be somebody's who says it, too
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) < 0) return 0;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0) return 0;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) < 0) return 0;
  static std::vector<Fd> kept;
  kept.push_back(std::move(fd));
  return ntohs(address.sin_port);
}

// Connects, trying for two seconds, and says `text`.
inline Fd stranger(uint16_t port, const std::string& text) {
  const sockaddr_in address = loopback(port);
  for (int attempt = 0; attempt < 200; attempt++) {
    Fd fd(socket(AF_INET, SOCK_STREAM, 0));
    if (fd.valid() && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      (void)!send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
      return fd;
    }
    usleep(10'000);
  }
  return Fd();
}

}  // namespace r2cc::test
