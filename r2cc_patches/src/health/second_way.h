// The side channel over TCP.
//
// A question that UDP leaves unanswered for 20 ms is asked over TCP as well, on the same path: from then on all that is
// said over that path goes both ways, until UDP was asked and answered alone for a while. So a firewall costs a healthy
// job nothing, and is told from a broken path, which answers on neither. A stream also proves that data passes again
// where a lane stood still.
//
// A spare stream to each path that connections are on says nothing. UDP and new connections may be lost at once (a
// firewall that lets pass what is open), and a healthy job needs neither: then this stream is woken.
#pragma once

#include <vector>

#include "health/nic_report.h"
#include "paths/streams.h"

namespace r2cc {

class SecondWay {
 public:
  SecondWay(Shared& shared, Streams& streams, NicReport& report)
      : shared_(shared), streams_(streams), report_(report), udpLost_(shared.nics.size()) {}
  void tick(Peer& peer, int64_t now);
  /// Before a path is given up because UDP is silent on it: whether TCP is, too. Where data is on its way and the
  /// kernel hears nothing, it is; else a stream is asked. Transports that cannot be looked into are believed to be what
  /// UDP says, where UDP ever passed.
  bool silent(Peer& peer, Path& path, int64_t now);
  /// A port was refused: UDP is not waited for.
  static void hurry(Path& path);

 private:
  void tickPath(Peer& peer, Path& path, int64_t now);
  void open(Peer& peer, Path& path, int64_t now);
  void knock(Peer& peer, Path& path, int64_t now);
  void keepSpare(Peer& peer, Path& path, int64_t now);
  bool wakeSpare(Path& path, int64_t now);
  void introduce(const Peer& peer, SideStream& spare) const;
  void greet(Peer& peer, SideStream& stream) const;
  void proveUdp(const Peer& peer, Path& path, int64_t now);
  void proveData(Peer& peer, Path& path, SideStream& stream, int64_t now) const;
  bool send(const Peer& peer, SideStream& stream, Datagram& datagram) const;
  void reportUdp(const Peer& peer, Path& path, bool passes);
  Shared& shared_;
  Streams& streams_;
  NicReport& report_;
  std::vector<bool> udpLost_;  // by NIC: said in NCCL's log
};

}  // namespace r2cc
