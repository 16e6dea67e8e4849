#include "where_to_meet.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <memory>
#include <stdexcept>

#include "settings.h"
#include "socket.h"

namespace r2cc::schedules {
namespace {

std::string numeric(const sockaddr* address) {
  char host[NI_MAXHOST];
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

std::string addressOf(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || interface != one->ifa_name) continue;
    if (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6) return numeric(one->ifa_addr);
  }
  return {};
}

}  // namespace

std::string whereToMeet() {
  const std::string side = addressOf(Settings::get().sideInterface);
  if (!side.empty()) return side;
  char name[MAX_IF_NAME_SIZE + 1] = {};
  ncclSocketAddress address = {};
  int found = 0;
  if (ncclFindInterfaces(name, &address, MAX_IF_NAME_SIZE, 1, &found) != ncclSuccess || found < 1) {
    throw std::runtime_error("no interface to agree over");
  }
  return numeric(&address.sa);
}

}  // namespace r2cc::schedules
