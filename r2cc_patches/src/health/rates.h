// What each path carries, and whom a slow NIC concerns. It has paths at several processes, each of which measures its
// own: the first that is sure tells the others, so that all that share the NIC move within milliseconds.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "data/send_connection.h"
#include "health/nic_report.h"
#include "paths/shared.h"

namespace r2cc {

class Rates {
 public:
  /// `compares`: whether R2CC_MODE wants NICs compared by what they carry.
  Rates(Shared& shared, NicReport& report, bool compares) : shared_(shared), report_(report), compares_(compares) {}
  void tick(Peer& peer, int64_t now) {
    if (!peer.weConnect || !compares() || !peer.capacities.due(now)) return;
    for (const auto& [id, connection] : peer.sends) connection->sample(peer.capacities);
    for (const auto& path : peer.paths()) {
      if (path->capacity < 1.0) peer.capacities.doubt(*path, !weakOtherWay(path->local, now));
    }
    for (const Path* path : peer.capacities.close(peer.paths(), now)) {
      onCapacity(peer, *path);
      if (path->capacity >= 1.0) continue;
      peer.tellEverywhere(Slow{peer.remote()[path->remote].dev});
      slowHere(path->local, now);
    }
  }
  /// The other end found one of its NICs, or of ours, slow.
  void onSlow(Peer& peer, const Slow& message) {
    if (!compares()) return;
    const int64_t now = runNs();
    if (!peer.weConnect) {
      if (message.dev < shared_.nics.size()) slowHere(message.dev, now);
      return;
    }
    for (const auto& path : peer.paths()) {
      if (path->data && peer.remote()[path->remote].dev == message.dev) agree(peer, *path, now);
    }
  }

 private:
  bool compares() const { return compares_ && report_.comparable(); }
  /// Whether somebody who sends to this NIC of ours says that it is slow. Looked up once a window, for all peers.
  bool weakOtherWay(size_t nic, int64_t now) {
    if (now - weakLookedNs_ >= kWindowNs) {
      weakLookedNs_ = now;
      weak_.assign(shared_.nics.size(), false);
      for (const auto& [key, peer] : shared_.peers) {
        if (peer->weConnect) continue;
        for (const auto& path : peer->paths()) {
          if (path->data && path->capacity < 1.0) weak_[path->local] = true;
        }
      }
    }
    return weak_[nic];
  }
  void onCapacity(Peer& peer, const Path& path) {
    peer.plansVersion++;
    report_.changed();
    const int64_t percent = std::lround(path.capacity * 100);
    const std::string& nic = shared_.nics[path.local].name;
    shared_.info("R2CC: " + nic + " to peer " + peer.describe() + " carries " + std::to_string(percent) +
                 " % of what its siblings do");
    auto line = shared_.events.line("nic");
    line.add("nic", nic).add("peer", peer.describe()).add("peer_nic", peer.remote()[path.remote].dev);
    line.add("state", path.capacity < 1.0 ? "degraded" : "up");
    line.add("cause", "rate").add("capacity_percent", percent);
  }
  /// A NIC of ours: those who send to it are told, and what we send over it is looked at.
  void slowHere(size_t nic, int64_t now) {
    for (const auto& [key, peer] : shared_.peers) {
      if (!peer->weConnect) {
        peer->tellEverywhere(Slow{static_cast<uint8_t>(nic)});
        continue;
      }
      for (const auto& path : peer->paths()) {
        if (path->data && path->local == nic) agree(*peer, *path, now);
      }
    }
  }
  void agree(Peer& peer, Path& path, int64_t now) {
    if (peer.capacities.agree(path, now)) onCapacity(peer, path);
  }
  Shared& shared_;
  NicReport& report_;
  const bool compares_;
  std::vector<bool> weak_;  // local NICs, of what is sent to them
  int64_t weakLookedNs_ = INT64_MIN / 2;
};

}  // namespace r2cc
