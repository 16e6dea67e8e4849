// A path died silently: local NIC, remote NIC, or the link between? Both ends ask everybody they know over the NIC in
// question; a NIC over which anybody answers works. Every header says over which NICs its sender hears somebody.
// That a NIC does not work is silence, and a busy host is silent too: who knows too little asks again.
#pragma once

#include <vector>

#include "health/nic_report.h"
#include "paths/shared.h"

namespace r2cc {

class Locator {
 public:
  Locator(Shared& shared, NicReport& report)
      : shared_(shared), report_(report), heardNs_(shared.nics.size()), askUntil_(shared.nics.size()) {}
  /// Something genuine came over this NIC.
  void heard(size_t nic, int64_t now) { heardNs_[nic] = now; }
  /// A path that this end sends over fell silent.
  void onSilentDeath(Peer& peer, Path& path, int64_t now);
  /// The other end found a path to us silent.
  void onPathDead(const Peer& peer, const PathDead& message);
  /// The other end wants one of its NICs looked at.
  static void onLookAt(const Peer& peer, const LookAt& message);
  void tick(int64_t now);

 private:
  void suspectAllOf(size_t nic, int64_t now);
  void suspectOurs(uint32_t nics, int64_t now);
  void ask(Peer& peer, Path& path, int64_t now);
  void locate(Peer& peer, Path& path, int64_t since, int64_t now);
  void reconsider(const Peer& peer, Path& path, int64_t since);
  void say(const Peer& peer, Path& path, Blame blame);
  Shared& shared_;
  NicReport& report_;
  std::vector<int64_t> heardNs_;   // when anybody was last heard over each NIC
  std::vector<int64_t> askUntil_;  // NICs over which everybody is asked until then
  int64_t lastAsked_ = 0;
};

}  // namespace r2cc
