// Judgement: which paths live, which peers are gone for good, and who has to be told.
#pragma once

#include <string>

#include "data/connection.h"
#include "health/locator.h"
#include "health/nic_report.h"
#include "health/second_way.h"
#include "paths/shared.h"

namespace r2cc {

class Judge {
 public:
  Judge(Shared& shared, Streams& streams, SecondWay& secondWay, Locator& locator, NicReport& report)
      : shared_(shared), streams_(streams), secondWay_(secondWay), locator_(locator), report_(report) {}
  /// By links and by probes; at every tick, and when news of a link came.
  void judgePaths(Peer& peer, int64_t now);
  /// Nothing heard from a peer that owes us something: asks; after the hold time, gives it up.
  void watchSilence(Peer& peer, int64_t now);
  /// What a datagram says of the links at the other end.
  void onRemoteLinks(Peer& peer, const Header& header);
  /// The NIC at the other end of a path has another address.
  void onMoved(Peer& peer, Path& path);
  uint64_t probes() const { return probes_; }

 private:
  void probeRound(Peer& peer, int64_t now);
  void judgeProbed(Peer& peer, int64_t now);
  void probeUnused(Peer& peer, Path& path, int64_t now);
  bool lostLink(const Peer& peer, const Path& path) const;
  bool suspects(Peer& peer, int64_t now) const;
  void pathDown(Peer& peer, Path& path, const std::string& cause);
  int64_t callNs() const;
  bool stoppedOnly(const Peer& peer, int64_t now) const;
  bool ended(Peer& peer, int64_t now);
  Shared& shared_;
  Streams& streams_;
  SecondWay& secondWay_;
  Locator& locator_;
  NicReport& report_;
  uint64_t probes_ = 0;
};

}  // namespace r2cc
