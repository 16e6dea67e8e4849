#include "nic/nic_address.h"

#include <ifaddrs.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace r2cc {
namespace {

uint8_t prefixBits(const sockaddr* mask) {
  const bool v4 = mask->sa_family == AF_INET;
  const auto* bytes = v4 ? reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
                         : reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
  int bits = 0;
  for (int i = 0; i < (v4 ? 4 : 16); i++) bits += __builtin_popcount(bytes[i]);
  return static_cast<uint8_t>(bits);
}

bool usable(const ifaddrs* entry, const std::string& name) {
  if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr || name != entry->ifa_name) return false;
  if (entry->ifa_addr->sa_family == AF_INET) return true;
  if (entry->ifa_addr->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr);
}

NicAddress addressOf(const ifaddrs* entry) {
  sockaddr_storage storage{};
  const size_t size = entry->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  memcpy(&storage, entry->ifa_addr, size);
  NicAddress out = NicAddress::from(storage);
  out.port = 0;
  out.prefix = prefixBits(entry->ifa_netmask);
  return out;
}

}  // namespace

sockaddr_storage NicAddress::sockaddr() const {
  sockaddr_storage out{};
  if (family == AF_INET) {
    auto* in = reinterpret_cast<sockaddr_in*>(&out);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    memcpy(&in->sin_addr, ip.data(), 4);
  } else {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&out);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, ip.data(), 16);
  }
  return out;
}

NicAddress NicAddress::from(const sockaddr_storage& address) {
  NicAddress out;
  out.family = static_cast<uint8_t>(address.ss_family);
  if (address.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    out.port = ntohs(in->sin_port);
    memcpy(out.ip.data(), &in->sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address);
    out.port = ntohs(in6->sin6_port);
    memcpy(out.ip.data(), &in6->sin6_addr, 16);
  }
  return out;
}

bool NicAddress::sameSubnet(const NicAddress& other) const {
  if (family != other.family || prefix != other.prefix) return false;
  const size_t bits = std::min<size_t>(prefix, family == AF_INET ? 32 : 128);
  for (size_t i = 0; i < bits; i += 8) {
    const auto mask = static_cast<uint8_t>(bits - i >= 8 ? 0xff : 0xff << (8 - (bits - i)));
    if ((ip[i / 8] ^ other.ip[i / 8]) & mask) return false;
  }
  return true;
}

NicAddress findAddress(const std::string& interface) { return keepAddress(interface, {}); }

NicAddress keepAddress(const std::string& interface, const NicAddress& had) {
  NicAddress found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!usable(entry, interface)) continue;
    const NicAddress address = addressOf(entry);
    if (address.sameHost(had)) return address;
    if (found.family == 0 || (found.family == AF_INET6 && address.family == AF_INET)) found = address;
  }
  return found;
}

}  // namespace r2cc
