// TCP, non-blocking, of any IP family.
#pragma once

#include <netinet/in.h>

#include <string>

#include "base/fd.h"

namespace r2cc::agree {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  std::string text() const;  // "10.0.0.1:4711", "[fe80::1%eth0]:4711"
};

/// `host` is numeric. Throws std::invalid_argument.
Address parseAddress(const std::string& host, uint16_t port);
/// As `from`, an address of this host, would call `host`: a link-local one is reached through `from`'s interface, as
/// another host's has another name here. Throws std::invalid_argument.
Address addressFor(const std::string& host, uint16_t port, const Address& from);
/// Listens on a port of the kernel's choice. Throws std::runtime_error.
Fd listenOn(const Address& address);
Address boundTo(const Fd& listener);
uint16_t portOf(const Address& address);
/// Invalid, and errno set, when that failed at once; otherwise connected soon, or not: connectResult().
Fd startConnecting(const Address& from, const Address& to);
/// 0 when connected, else an errno. Asked when the socket became writable.
int connectResult(const Fd& socket);
/// Invalid when nobody is there; errno as accept(2) sets it.
Fd acceptFrom(const Fd& listener);

}  // namespace r2cc::agree
