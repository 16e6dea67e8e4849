#include "side_channel.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

namespace r2cc {
namespace {

constexpr int kBurst = 16;  // datagrams from one socket, before the next one's turn

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

socklen_t sizeOf(const sockaddr_storage& a) {
  return a.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

/// A socket on the NIC's address and a free port, which it fills in.
int openSocket(const LocalNic& nic, uint16_t& port) {
  if (nic.address.family == 0) return -1;
  const int fd = socket(nic.address.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int urgent = 6;  // control traffic overtakes data where the queueing discipline has bands
  (void)setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &urgent, sizeof(urgent));
  // Keeps a datagram on its NIC whatever the routing table says. Older kernels want a privilege for it; the source
  // address then still names the NIC, and the subnet's route normally leads there.
  (void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, nic.name.c_str(), static_cast<socklen_t>(nic.name.size()));
  (void)setsockopt(fd, nic.address.family == AF_INET ? SOL_IP : SOL_IPV6,
                   nic.address.family == AF_INET ? IP_RECVERR : IPV6_RECVERR, &on, sizeof(on));
  NicAddress any = nic.address;
  any.port = 0;
  sockaddr_storage address = any.sockaddr();
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeOf(address)) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    close(fd);
    return -1;
  }
  port = NicAddress::from(address).port;
  return fd;
}

}  // namespace

LocalNic findLocalNic(const std::string& name, uint8_t index, uint8_t flags) {
  LocalNic nic;
  nic.name = name;
  nic.ifindex = if_nametoindex(name.c_str());
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (!usable(entry, name)) continue;
      if (nic.address.family == AF_INET) break;
      if (nic.address.family == 0 || entry->ifa_addr->sa_family == AF_INET) nic.address = addressOf(entry);
    }
  }
  nic.dev = index;
  nic.address.dev = index;
  nic.address.flags = flags;
  return nic;
}

SideChannel::SideChannel(std::vector<LocalNic>& nics, Filter filter) : filter_(std::move(filter)) {
  for (LocalNic& nic : nics) {
    fds_.push_back(openSocket(nic, nic.address.port));
    ackFds_.push_back(openSocket(nic, nic.address.ackPort));
  }
}

SideChannel::~SideChannel() {
  for (const auto& fds : {fds_, ackFds_}) {
    for (const int fd : fds) {
      if (fd >= 0) close(fd);
    }
  }
}

bool SideChannel::send(size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes) const {
  if (nic >= fds_.size() || fds_[nic] < 0) return false;
  if (filter_ && !filter_(nic, to, bytes)) return true;
  const sockaddr_storage address = to.sockaddr();
  for (int attempt = 0; attempt < 2; attempt++) {
    const ssize_t sent = sendto(fds_[nic], bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), sizeOf(address));
    if (sent == static_cast<ssize_t>(bytes.size())) return true;
    // A queued ICMP error of an earlier datagram is reported once, on a send that has nothing to do with it.
    if (errno != ECONNREFUSED) return false;
  }
  return false;
}

void SideChannel::readErrors(size_t nic, const OnRefused& refused) const {
  for (int burst = 0; burst < 16; burst++) {
    sockaddr_storage to{};
    char control[512];
    uint8_t payload[2048];
    iovec part{payload, sizeof(payload)};
    msghdr message{};
    message.msg_name = &to;
    message.msg_namelen = sizeof(to);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(fds_[nic], &message, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (got < 0) return;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      const bool ours = (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                        (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR);
      sock_extended_err error{};
      if (ours) memcpy(&error, CMSG_DATA(c), sizeof(error));
      if (ours && error.ee_errno == ECONNREFUSED) refused(payload, static_cast<size_t>(got));
    }
  }
}

bool SideChannel::receive(int fd, const OnDatagram& datagram) {
  uint8_t buffers[kBurst][2048];
  sockaddr_storage from[kBurst];
  iovec parts[kBurst];
  mmsghdr messages[kBurst] = {};
  for (size_t i = 0; i < kBurst; i++) {
    parts[i] = {buffers[i], sizeof(buffers[i])};
    messages[i].msg_hdr.msg_name = &from[i];
    messages[i].msg_hdr.msg_namelen = sizeof(from[i]);
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  const int got = recvmmsg(fd, messages, kBurst, MSG_DONTWAIT, nullptr);
  if (got < 0) return errno == ECONNREFUSED;  // said once; the details are in the error queue
  for (int i = 0; i < got; i++) datagram(NicAddress::from(from[i]), buffers[i], messages[i].msg_len);
  return got == kBurst;
}

}  // namespace r2cc
