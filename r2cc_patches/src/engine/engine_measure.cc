// Balance: what each path carries, and whom a slow NIC concerns. It has paths at several processes, each of which
// measures its own: the first that is sure tells the others, so that all that share the NIC move within milliseconds.
#include <cmath>

#include "engine/engine.h"

namespace r2cc {

void Engine::measure(Peer& peer, int64_t now) {
  for (const auto& [id, connection] : peer.sends) connection->sample(peer.capacities);
  for (const Path* path : peer.capacities.close(peer.paths(), now)) {
    onCapacity(peer, *path);
    if (path->capacity >= 1.0) continue;
    peer.tellEverywhere(Slow{peer.remote()[path->remote].dev});
    slowHere(path->local, now);
  }
}

bool Engine::comparesRates() const { return services_.mode >= 2 && (health_ == nullptr || health_->comparable()); }

void Engine::onCapacity(Peer& peer, const Path& path) {
  peer.plansVersion++;
  healthChanged_ = true;
  const int64_t percent = std::lround(path.capacity * 100);
  info_("R2CC: " + nics_[path.local].name + " to peer " + peer.describe() + " carries " + std::to_string(percent) +
        " % of what its siblings do");
  auto line = events_.line("nic");
  line.add("nic", nics_[path.local].name).add("peer", peer.describe());
  line.add("peer_nic", peer.remote()[path.remote].dev).add("state", path.capacity < 1.0 ? "degraded" : "up");
  line.add("cause", "rate").add("capacity_percent", percent);
}

void Engine::onSlow(Peer& peer, const Slow& message) {
  if (!comparesRates()) return;
  const int64_t now = runNs();
  if (!peer.weConnect) {
    if (message.dev < nics_.size()) slowHere(message.dev, now);
    return;
  }
  for (const auto& path : peer.paths()) {
    if (path->data && peer.remote()[path->remote].dev == message.dev) agree(peer, *path, now);
  }
}

/// A NIC of ours: those who send to it are told, and what we send over it is looked at.
void Engine::slowHere(size_t nic, int64_t now) {
  for (const auto& [key, peer] : peers_) {
    if (!peer->weConnect) {
      peer->tellEverywhere(Slow{static_cast<uint8_t>(nic)});
      continue;
    }
    for (const auto& path : peer->paths()) {
      if (path->data && path->local == nic) agree(*peer, *path, now);
    }
  }
}

void Engine::agree(Peer& peer, Path& path, int64_t now) {
  if (peer.capacities.agree(path, now)) onCapacity(peer, path);
}

}  // namespace r2cc
