#include "nic/links.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000
#endif

namespace r2cc {
namespace {

constexpr int kBufferBytes = 1 << 20;
constexpr int kMostReads = 256;  // of up to 16 KiB; the rest at the next call

/// As far as we are allowed to: net.core.rmem_max bounds what one without privileges gets.
void enlargeBuffer(int fd) {
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kBufferBytes, sizeof(kBufferBytes)) == 0) return;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kBufferBytes, sizeof(kBufferBytes));
}

}  // namespace

LinkWatch::LinkWatch() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  if (!fd_.valid()) {
    refused_ = strerror(errno);
    return;
  }
  enlargeBuffer(fd_.get());
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return;
  refused_ = strerror(errno);
  fd_.reset();
}

// What is queued is older than what was lost: states are asked for only when the queue is empty.
bool LinkWatch::read(const std::function<void(unsigned, bool)>& changed,
                     const std::function<void(unsigned)>& addressed) {
  alignas(nlmsghdr) char buffer[16384];
  for (int reads = 0; reads < kMostReads; reads++) {
    const ssize_t size = recv(fd_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (size < 0 && errno == ENOBUFS) lost_ = true;
    if (size < 0 && (errno == ENOBUFS || errno == EINTR)) continue;
    if (size <= 0) return std::exchange(lost_, false);
    auto left = static_cast<unsigned>(size);
    for (auto* h = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
      if (h->nlmsg_type == RTM_NEWADDR || h->nlmsg_type == RTM_DELADDR) {
        addressed(static_cast<const ifaddrmsg*>(NLMSG_DATA(h))->ifa_index);
      }
      if (h->nlmsg_type != RTM_NEWLINK && h->nlmsg_type != RTM_DELLINK) continue;
      const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(h));
      constexpr unsigned kUp = IFF_UP | IFF_LOWER_UP;
      changed(static_cast<unsigned>(link->ifi_index), h->nlmsg_type == RTM_NEWLINK && (link->ifi_flags & kUp) == kUp);
    }
  }
  return false;
}

bool LinkWatch::isUp(const std::string& interface) {
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return true;
  ifreq request{};
  strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  const bool known = ioctl(fd.get(), SIOCGIFFLAGS, &request) == 0;
  return !known || ((request.ifr_flags & IFF_UP) != 0 && (request.ifr_flags & IFF_RUNNING) != 0);
}

bool LinkWatch::isUp(unsigned ifindex) {
  char name[IF_NAMESIZE];
  if (if_indextoname(ifindex, name) == nullptr) return errno != ENXIO && errno != ENODEV;
  return isUp(std::string(name));
}

}  // namespace r2cc
