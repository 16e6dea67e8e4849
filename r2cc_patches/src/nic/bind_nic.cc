#include "nic/bind_nic.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace r2cc {
namespace {

constexpr uint16_t kDiscardPort = 9;

socklen_t addressSize(const sockaddr_storage& a) {
  return a.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

const sockaddr_in& v4(const sockaddr_storage& a) { return reinterpret_cast<const sockaddr_in&>(a); }
const sockaddr_in6& v6(const sockaddr_storage& a) { return reinterpret_cast<const sockaddr_in6&>(a); }

bool sameAddress(const sockaddr_storage& a, const sockaddr* b) {
  if (b == nullptr || b->sa_family != a.ss_family) return false;
  if (a.ss_family == AF_INET) return v4(a).sin_addr.s_addr == reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  return memcmp(&v6(a).sin6_addr, &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

bool isLoopback(const sockaddr_storage& a) {
  if (a.ss_family == AF_INET) return (ntohl(v4(a).sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&v6(a).sin6_addr);
}

int readSetting(const std::string& interface) {
  std::ifstream in("/proc/sys/net/ipv4/conf/" + interface + "/rp_filter");
  int value = 0;
  return in >> value ? value : 0;
}

/// The interface that an accepted socket's first packet came in by; 0: unknown. The kernel keeps it with the socket's
/// multicast settings (and shows it as what a datagram's IP_PKTINFO would say).
unsigned arrivedAt(int fd, int family) {
  alignas(cmsghdr) char buffer[256];
  socklen_t size = sizeof(buffer);
  const bool four = family == AF_INET;
  if (getsockopt(fd, four ? SOL_IP : SOL_IPV6, four ? IP_PKTOPTIONS : IPV6_2292PKTOPTIONS, buffer, &size) != 0)
    return 0;
  msghdr message{};
  message.msg_control = buffer;
  message.msg_controllen = size;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    in_pktinfo four4{};
    in6_pktinfo six{};
    if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_PKTINFO) {
      memcpy(&four4, CMSG_DATA(c), sizeof(four4));
      return static_cast<unsigned>(four4.ipi_ifindex);
    }
    if (c->cmsg_level == SOL_IPV6 && (c->cmsg_type == IPV6_PKTINFO || c->cmsg_type == IPV6_2292PKTINFO)) {
      memcpy(&six, CMSG_DATA(c), sizeof(six));
      return six.ipi6_ifindex;
    }
  }
  return 0;
}

void askForArrival(int fd, int family) {
  const int on = 1;
  if (family == AF_INET) (void)setsockopt(fd, SOL_IP, IP_PKTINFO, &on, sizeof(on));
  if (family == AF_INET6) (void)setsockopt(fd, SOL_IPV6, IPV6_2292PKTINFO, &on, sizeof(on));
}

bool inSubnet(const ifaddrs* at, const sockaddr_storage& to) {
  if (at->ifa_addr == nullptr || at->ifa_netmask == nullptr || at->ifa_addr->sa_family != to.ss_family) return false;
  const auto bytes = [&](const void* a) {
    const auto* address = static_cast<const uint8_t*>(a);
    return to.ss_family == AF_INET ? address + offsetof(sockaddr_in, sin_addr)
                                   : address + offsetof(sockaddr_in6, sin6_addr);
  };
  const uint8_t *own = bytes(at->ifa_addr), *mask = bytes(at->ifa_netmask), *other = bytes(&to);
  for (size_t i = 0; i < (to.ss_family == AF_INET ? 4U : 16U); i++) {
    if ((own[i] ^ other[i]) & mask[i]) return false;
  }
  return true;
}

void addAttribute(std::vector<char>& request, uint16_t type, const void* data, size_t size) {
  rtattr attribute{};
  attribute.rta_len = static_cast<uint16_t>(RTA_LENGTH(size));
  attribute.rta_type = type;
  const size_t at = request.size();
  request.resize(at + RTA_SPACE(size));
  memcpy(request.data() + at, &attribute, sizeof(attribute));
  memcpy(request.data() + at + RTA_LENGTH(0), data, size);
}

struct RouteAnswer {
  unsigned interface = 0;
  bool gateway = false;
};

std::vector<char> routeRequest(const sockaddr_storage& source, const sockaddr_storage& to, unsigned out) {
  const bool four = to.ss_family == AF_INET;
  std::vector<char> request(NLMSG_SPACE(sizeof(rtmsg)));
  const uint8_t bits = four ? 32 : 128;
  const auto address = [&](const sockaddr_storage& a) {
    return four ? static_cast<const void*>(&v4(a).sin_addr) : static_cast<const void*>(&v6(a).sin6_addr);
  };
  addAttribute(request, RTA_DST, address(to), bits / 8);
  addAttribute(request, RTA_SRC, address(source), bits / 8);
  if (out != 0) addAttribute(request, RTA_OIF, &out, sizeof(out));
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(request.size());
  header.nlmsg_type = RTM_GETROUTE;
  header.nlmsg_flags = NLM_F_REQUEST;
  rtmsg route{};
  route.rtm_family = static_cast<uint8_t>(to.ss_family);
  route.rtm_dst_len = route.rtm_src_len = bits;
  memcpy(request.data(), &header, sizeof(header));
  memcpy(request.data() + NLMSG_LENGTH(0), &route, sizeof(route));
  return request;
}

/// What the kernel would do with a packet; interface 0 when there is no route, or no answer.
RouteAnswer routeOf(const sockaddr_storage& source, const sockaddr_storage& to, unsigned out) {
  RouteAnswer answer;
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return answer;
  const timeval limit{0, 200000};
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  const std::vector<char> request = routeRequest(source, to, out);
  alignas(nlmsghdr) char buffer[4096];
  ssize_t size = send(fd, request.data(), request.size(), 0) < 0 ? -1 : recv(fd, buffer, sizeof(buffer), 0);
  close(fd);
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer);
  if (size < 0 || !NLMSG_OK(header, static_cast<size_t>(size)) || header->nlmsg_type != RTM_NEWROUTE) return answer;
  const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(header));
  auto left = RTM_PAYLOAD(header);
  for (const rtattr* a = RTM_RTA(route); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    if (a->rta_type == RTA_OIF) memcpy(&answer.interface, RTA_DATA(a), sizeof(answer.interface));
    answer.gateway |= a->rta_type == RTA_GATEWAY || a->rta_type == RTA_VIA;
  }
  return answer;
}

bool bindDevice(int fd, const std::string& interface) {
  return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), static_cast<socklen_t>(interface.size())) == 0;
}

}  // namespace

bool isLocalAddress(const sockaddr_storage& address) {
  if (isLoopback(address)) return true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (sameAddress(address, at->ifa_addr)) return true;
  }
  return false;
}

bool sharesSubnet(const std::string& interface, const sockaddr_storage& own) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (interface != at->ifa_name && inSubnet(at, own)) return true;
  }
  return false;
}

bool mayBindDevice(const std::string& interface) { return std::max(readSetting("all"), readSetting(interface)) != 1; }

bool leadsThere(const std::string& interface, const sockaddr_storage& source, const sockaddr_storage& to) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  bool near = false;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (sameAddress(to, at->ifa_addr) || isLoopback(to)) return false;
    near |= interface == at->ifa_name && inSubnet(at, to);
  }
  if (!mayBindDevice(interface)) return false;
  const unsigned index = if_nametoindex(interface.c_str());
  // Asked for an interface without a route the kernel takes everything to be on its link: only a gateway is an answer.
  return near || routeOf(source, to, index).gateway || routeOf(source, to, 0).interface == index;
}

bool bindToNic(int fd, const std::string& interface, const sockaddr_storage& source, const sockaddr_storage& to,
               bool* device) {
  const bool wanted = leadsThere(interface, source, to);
  const bool bound = wanted && bindDevice(fd, interface);
  if (device != nullptr) *device = bound || !wanted;
  return bind(fd, reinterpret_cast<const sockaddr*>(&source), addressSize(source)) == 0;
}

bool keepOnNic(int fd, const std::string& interface) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  if (isLocalAddress(peer)) return true;
  askForArrival(fd, peer.ss_family);
  if (arrivedAt(fd, peer.ss_family) != if_nametoindex(interface.c_str())) return false;
  return !mayBindDevice(interface) || bindDevice(fd, interface);
}

void announceAddress(int udpSocket, unsigned ifindex, const sockaddr_storage& own, int prefixBits) {
  if (udpSocket < 0 || own.ss_family != AF_INET || prefixBits <= 0 || prefixBits > 30) return;
  sockaddr_in lowest{};
  lowest.sin_family = AF_INET;
  lowest.sin_port = htons(kDiscardPort);
  lowest.sin_addr.s_addr = v4(own).sin_addr.s_addr & htonl(~uint32_t{0} << (32 - prefixBits));
  in_pktinfo out{};
  out.ipi_ifindex = static_cast<int>(ifindex);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(out))] = {};
  msghdr message{};
  message.msg_name = &lowest;
  message.msg_namelen = sizeof(lowest);
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_IP;
  c->cmsg_type = IP_PKTINFO;
  c->cmsg_len = CMSG_LEN(sizeof(out));
  memcpy(CMSG_DATA(c), &out, sizeof(out));
  (void)sendmsg(udpSocket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace r2cc
