// NICs that are to go away: connections leave them by a switch, which stops nothing. Where no other path is left they
// stay. Under the engine's mutex.
#pragma once

#include "health/nic_report.h"
#include "paths/shared.h"

namespace r2cc {

class Drains {
 public:
  Drains(Shared& shared, NicReport& report) : shared_(shared), report_(report) {}
  /// A bit for each NIC of ours.
  void want(uint32_t nics, int64_t now);
  bool leaving(size_t nic) const { return (nics_ >> nic & 1) != 0; }
  /// The other end's NICs, by a peer that receives from us.
  void onLeaving(Peer& peer, const Leaving& message);
  /// Peers and paths that joined hear it, too.
  void tick(int64_t now);

 private:
  void say();
  void mark(Peer& peer) const;
  Shared& shared_;
  NicReport& report_;
  uint32_t nics_ = 0, version_ = 0;
  bool theirs_ = false;  // some peer has such NICs
  int saysLeft_ = 0;     // times everywhere
  size_t turn_ = 0;
  int64_t next_ = 0;
};

}  // namespace r2cc
