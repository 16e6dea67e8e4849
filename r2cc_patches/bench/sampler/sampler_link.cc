#include "bench/sampler/sampler_link.h"

#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace r2cc::bench {
namespace {

constexpr int kAnswerTimeMs = 2000;

[[noreturn]] void fail(const char* what) { throw std::runtime_error(std::string(what) + ": " + std::strerror(errno)); }

std::string nameOf(const nlmsghdr* message) {
  const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
  int left = static_cast<int>(IFLA_PAYLOAD(message));
  for (const rtattr* a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    if (a->rta_type == IFLA_IFNAME) {
      return std::string(static_cast<const char*>(RTA_DATA(a)),
                         strnlen(static_cast<const char*>(RTA_DATA(a)), RTA_PAYLOAD(a)));
    }
  }
  return "";
}

}  // namespace

LinkWatch::LinkWatch() : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  if (!socket_.valid()) fail("netlink socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) < 0) fail("netlink bind");
  requestAll();
  pollfd answer{socket_.get(), POLLIN, 0};
  if (poll(&answer, 1, kAnswerTimeMs) <= 0) throw std::runtime_error("netlink did not list the links");
  receive([](const std::string&, bool) {});
}

void LinkWatch::requestAll() {
  struct {
    nlmsghdr header;
    rtgenmsg family;
  } request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof(request.family));
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.family.rtgen_family = AF_UNSPEC;
  if (send(socket_.get(), &request, request.header.nlmsg_len, 0) < 0) fail("netlink request");
}

void LinkWatch::receive(const std::function<void(const std::string&, bool)>& report) {
  alignas(nlmsghdr) char buffer[32768];
  while (true) {
    const ssize_t size = recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (size < 0 && errno == EINTR) continue;
    // The kernel dropped announcements: ask for the whole state; what differs from what we know is then reported.
    if (size < 0 && errno == ENOBUFS) {
      requestAll();
      continue;
    }
    if (size < 0) return;
    auto left = static_cast<unsigned int>(size);
    for (auto* m = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
      if (m->nlmsg_type != RTM_NEWLINK && m->nlmsg_type != RTM_DELLINK) continue;
      const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(m));
      const bool up =
          m->nlmsg_type == RTM_NEWLINK && (link->ifi_flags & IFF_UP) != 0 && (link->ifi_flags & IFF_LOWER_UP) != 0;
      const auto known = up_.find(link->ifi_index);
      const bool isNew = known == up_.end();
      if (!isNew && known->second == up) continue;
      up_[link->ifi_index] = up;
      report(nameOf(m), up);
    }
  }
}

}  // namespace r2cc::bench
