#include "inner/tcp_sample.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

#include "base/clock.h"

namespace r2cc {

bool tcpSample(int fd, LaneSample* out) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  if (size < offsetof(tcp_info, tcpi_rwnd_limited) + sizeof(info.tcpi_rwnd_limited)) return false;
  out->bytes = info.tcpi_bytes_acked;
  // The kernel's busy time holds the time in which the receiver's window was shut: that is the peer's doing. What a
  // small send buffer costs stays in: there, too, it is the network's acknowledgements that are waited for.
  out->busyNs =
      usToNs(static_cast<int64_t>(info.tcpi_busy_time - std::min(info.tcpi_rwnd_limited, info.tcpi_busy_time)));
  out->quietNs = msToNs(info.tcpi_last_ack_recv);
  out->waits = info.tcpi_unacked > 0;
  out->resent = info.tcpi_total_retrans;
  return true;
}

void addSocket(LaneSample& lane, const LaneSample& socket) {
  lane.bytes += socket.bytes;
  lane.busyNs = std::max(lane.busyNs, socket.busyNs);
  lane.quietNs = std::min(lane.quietNs, socket.quietNs);
  lane.waits |= socket.waits;
  lane.resent += socket.resent;
}

}  // namespace r2cc
