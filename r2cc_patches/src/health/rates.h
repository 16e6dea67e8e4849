// What each path carries, and whom a slow NIC concerns. It has paths at several processes, each of which measures its
// own: the first that is sure tells the others, so that all that share the NIC move within milliseconds.
#pragma once

#include "health/nic_report.h"
#include "paths/shared.h"

namespace r2cc {

class Rates {
 public:
  /// `compares`: whether R2CC_MODE wants NICs compared by what they carry.
  Rates(Shared& shared, NicReport& report, bool compares) : shared_(shared), report_(report), compares_(compares) {}
  void tick(Peer& peer, int64_t now);
  /// The other end found one of its NICs, or of ours, slow.
  void onSlow(Peer& peer, const Slow& message);

 private:
  bool compares() const { return compares_ && report_.comparable(); }
  void onCapacity(Peer& peer, const Path& path);
  void slowHere(size_t nic, int64_t now);
  void agree(Peer& peer, Path& path, int64_t now);
  Shared& shared_;
  NicReport& report_;
  const bool compares_;
};

}  // namespace r2cc
