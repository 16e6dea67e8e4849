// A NIC's address, as it travels in handles and datagrams.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace r2cc {

// NicAddress::flags
constexpr uint8_t kSideOnly = 1;    // carries the side channel, never data
constexpr uint8_t kLastResort = 2;  // carries data only when no other NIC can

/// Where a NIC's side-channel sockets listen.
struct NicAddress {
  uint8_t dev = 0;  // index in its owner's list of NICs
  uint8_t flags = 0;
  uint8_t family = 0;  // AF_INET or AF_INET6
  uint8_t prefix = 0;  // bits
  uint8_t domain = 0;  // of its owner's NICs those with the same number fail together (nic/domain.h)
  uint16_t port = 0;
  uint16_t ackPort = 0;  // for acknowledgements and nothing else
  std::array<uint8_t, 16> ip{};

  auto fields() { return inOrder(dev, flags, family, prefix, domain, port, ackPort, ip); }
  sockaddr_storage sockaddr() const;
  static NicAddress from(const sockaddr_storage& address);
  bool sameSubnet(const NicAddress& other) const;
  /// One address, which only one host has.
  bool sameHost(const NicAddress& other) const { return family == other.family && ip == other.ip; }
  bool sameSocket(const NicAddress& other) const {
    return family == other.family && port == other.port && ip == other.ip;
  }
};

/// The interface's first usable address, IPv4 first; family 0 when it has none.
NicAddress findAddress(const std::string& interface);
/// The same, but `had` (with the subnet's size of today) as long as the interface still has it.
NicAddress keepAddress(const std::string& interface, const NicAddress& had);

}  // namespace r2cc
