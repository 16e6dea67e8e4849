#include "wire/side_channel.h"

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "nic/bind_nic.h"

namespace r2cc {
namespace {

constexpr int kBurst = 16;  // datagrams from one socket, before the next one's turn
constexpr int kBacklog = 128;
constexpr int kPortTries = 16;  // to find a port that is free for UDP and TCP

socklen_t sizeOf(const sockaddr_storage& a) {
  return a.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

bool bindTo(const Fd& fd, const NicAddress& address) {
  const sockaddr_storage to = address.sockaddr();
  return fd.valid() && bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeOf(to)) == 0;
}

/// A datagram socket on the NIC's address and a free port, which it fills in. It is not bound to the device: where NICs
/// share a subnet what is sent to one may come in by another, and is heard all the same.
Fd openSocket(const LocalNic& nic, uint16_t& port) {
  Fd fd(socket(nic.address.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  const int on = 1;
  const int urgent = 6;  // control traffic overtakes data where the queueing discipline has bands
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_PRIORITY, &urgent, sizeof(urgent));
  (void)setsockopt(fd.get(), nic.address.family == AF_INET ? SOL_IP : SOL_IPV6,
                   nic.address.family == AF_INET ? IP_RECVERR : IPV6_RECVERR, &on, sizeof(on));
  NicAddress any = nic.address;
  any.port = 0;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (!bindTo(fd, any) || getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return Fd();
  port = NicAddress::from(address).port;
  return fd;
}

/// TCP on the same port; invalid when somebody else has that.
Fd openListen(const LocalNic& nic, uint16_t port) {
  Fd fd(socket(nic.address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  NicAddress address = nic.address;
  address.port = port;
  return bindTo(fd, address) && listen(fd.get(), kBacklog) == 0 ? std::move(fd) : Fd();
}

/// Both on one port. Without the second the NIC still has the first.
void openPair(const LocalNic& nic, uint16_t& port, std::vector<Fd>& udp, std::vector<Fd>& tcp) {
  Fd datagrams;
  Fd streams;
  for (int i = 0; i < kPortTries && nic.address.family != 0 && !streams.valid(); i++) {
    datagrams = openSocket(nic, port);
    if (!datagrams.valid()) break;
    streams = openListen(nic, port);
  }
  udp.push_back(std::move(datagrams));
  tcp.push_back(std::move(streams));
}

/// Out by this interface (IP_PKTINFO), which needs no privilege and leaves open where answers come in.
struct Pin {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(in6_pktinfo))] = {};
  Pin(msghdr& message, int family, unsigned ifindex) {
    message.msg_control = bytes;
    message.msg_controllen = sizeof(bytes);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    in_pktinfo four{};
    in6_pktinfo six{};
    four.ipi_ifindex = static_cast<int>(ifindex);
    six.ipi6_ifindex = ifindex;
    const bool v4 = family == AF_INET;
    const size_t size = v4 ? sizeof(four) : sizeof(six);
    c->cmsg_level = v4 ? SOL_IP : SOL_IPV6;
    c->cmsg_type = v4 ? IP_PKTINFO : IPV6_PKTINFO;
    c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), v4 ? static_cast<const void*>(&four) : &six, size);
    message.msg_controllen = CMSG_SPACE(size);
  }
};

}  // namespace

LocalNic findLocalNic(const std::string& name, uint8_t index, uint8_t flags) {
  LocalNic nic;
  nic.name = name;
  nic.ifindex = if_nametoindex(name.c_str());
  nic.address = findAddress(name);
  nic.dev = index;
  nic.address.dev = nic.address.domain = index;
  nic.address.flags = flags;
  return nic;
}

SideChannel::SideChannel(std::vector<LocalNic>& nics, Filter filter)
    : filter_(std::move(filter)), ifindex_(nics.size()) {
  for (size_t i = 0; i < nics.size(); i++) {
    LocalNic& nic = nics[i];
    ifindex_[i] = nic.ifindex;
    openPair(nic, nic.address.port, fds_, listenFds_);
    openPair(nic, nic.address.ackPort, ackFds_, ackListenFds_);
  }
}

bool SideChannel::rebind(LocalNic& nic, size_t index) {
  std::vector<Fd> datagrams, streams;
  NicAddress fresh = nic.address;
  openPair(nic, fresh.port, datagrams, streams);
  openPair(nic, fresh.ackPort, datagrams, streams);
  if (!datagrams[0].valid() || !datagrams[1].valid()) return false;
  fds_[index].become(std::move(datagrams[0]));
  ackFds_[index].become(std::move(datagrams[1]));
  listenFds_[index] = std::move(streams[0]);
  ackListenFds_[index] = std::move(streams[1]);
  ifindex_[index] = nic.ifindex;
  nic.address = fresh;
  return true;
}

bool SideChannel::send(size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, bool pinned) const {
  if (nic >= fds_.size() || !fds_[nic].valid()) return false;
  if (!passes(nic, to, bytes, Way::Udp)) return true;
  sockaddr_storage address = to.sockaddr();
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeOf(address);
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::optional<Pin> pin;
  if (pinned) pin.emplace(message, to.family, ifindex_[nic]);
  for (int attempt = 0; attempt < 2; attempt++) {
    if (sendmsg(fds_[nic].get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()))
      return true;
    // A queued ICMP error of an earlier datagram is reported once, on a send that has nothing to do with it.
    if (errno != ECONNREFUSED) return false;
  }
  return false;
}

void SideChannel::announce(const LocalNic& nic, size_t index) const {
  if (index < fds_.size()) announceAddress(fds_[index].get(), nic.ifindex, nic.address.sockaddr(), nic.address.prefix);
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
    const ssize_t got = recvmsg(fds_[nic].get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (got < 0) return;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      const bool ours = (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                        (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR);
      sock_extended_err error{};
      if (ours) memcpy(&error, CMSG_DATA(c), sizeof(error));
      if (ours && error.ee_errno == ECONNREFUSED) refused(NicAddress::from(to), payload, static_cast<size_t>(got));
    }
  }
}

bool SideChannel::receive(const Fd& fd, const OnDatagram& datagram) {
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
  const int got = recvmmsg(fd.get(), messages, kBurst, MSG_DONTWAIT, nullptr);
  if (got < 0) return errno == ECONNREFUSED;  // said once; the details are in the error queue
  for (int i = 0; i < got; i++) datagram(NicAddress::from(from[i]), buffers[i], messages[i].msg_len);
  return got == kBurst;
}

bool SideChannel::unread(size_t nic) const {
  pollfd waits[] = {{fds_[nic].get(), POLLIN, 0}, {ackFds_[nic].get(), POLLIN, 0}};
  return poll(waits, 2, 0) > 0 && ((waits[0].revents | waits[1].revents) & POLLIN) != 0;
}

}  // namespace r2cc
