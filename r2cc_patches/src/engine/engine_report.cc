// What this host's own NICs can carry (r2cc_health.h). One path says nothing about whose end is at fault: a NIC is
// slow, or gone, when all that is known of its paths says so, what others send to it included. The sending end of a
// path judges it, and tells the other end what it found.
#include <algorithm>
#include <cmath>

#include "engine/engine.h"

namespace r2cc {
namespace {

constexpr int64_t kTellAgainNs = msToNs(500);  // datagrams get lost
constexpr int kWellTold = 3;                   // how often it is said that a path is whole again
constexpr int64_t kWellAgainNs = msToNs(250);  // and how soon again
constexpr int64_t kBelieveNs = msToNs(200);    // a try that was wrong is taken back sooner

/// What is known of one NIC's paths.
struct Evidence {
  int dead = 0, alive = 0;  // paths
  int slow = 0;
  double best = 0;     // of those
  bool known = false;  // some path over it is known to be whole
  bool here = false;   // a silence was located at this NIC
};

double capacityOf(const Evidence& e) {
  if (e.here || (e.dead >= 2 && e.alive == 0)) return 0;
  return e.slow >= 2 && !e.known ? e.best : 1.0;
}

}  // namespace

/// For good: this reason never goes away.
void Engine::assumeDown(size_t nic) {
  downFor_[nic] |= kAssumedDown;
  events_.line("nic").add("nic", nics_[nic].name).add("state", "down").add("cause", "assumed");
  info_("R2CC: " + nics_[nic].name + " is taken for failed (R2CC_ASSUME_DOWN)");
}

std::vector<R2ccNicHealth> Engine::healthOfNics() const {
  std::vector<R2ccNicHealth> out;
  for (size_t i = 0; i < nics_.size() && (nics_[i].address.flags & (kSideOnly | kLastResort)) == 0; i++) {
    R2ccNicHealth nic{};
    nics_[i].name.copy(nic.name, sizeof(nic.name) - 1);
    nic.capacity = linkUp(i) ? 1.0 : 0.0;
    nic.rate_gbit = nics_[i].rateGbit;
    out.push_back(nic);
  }
  return out;
}

/// -1: nothing is known of it, or it is not for us to say.
double Engine::carries(const Peer& peer, const Path& path) {
  if (!path.linked) return -1;
  if (path.state() == PathState::Dead || path.state() == PathState::Probation) {
    return path.locate || path.blame == Blame::Remote ? -1 : 0;
  }
  return path.capacity < 1.0 || peer.capacities.knows(path) ? path.capacity : -1;
}

/// Said when it changes, again while it is less than all, and some times when it is whole again.
void Engine::tellReceiver(Peer& peer, Path& path, int64_t now) {
  const double carried = carries(peer, path);
  const auto percent = static_cast<uint8_t>(carried < 0 ? 100 : std::lround(100 * carried));  // no news is good news
  const bool changed = percent != path.toldPercent;
  if (changed || percent < 100) path.tellsLeft = kWellTold;
  const int64_t again = percent < 100 ? kTellAgainNs : kWellAgainNs;
  if (path.tellsLeft == 0 || (!changed && now - path.toldNs < again)) return;
  path.tellsLeft--;
  path.toldPercent = percent;
  path.toldNs = now;
  peer.tellEverywhere(PathHealth{path.local, peer.remote()[path.remote].dev, percent});
}

void Engine::onPathHealth(const Peer& peer, const PathHealth& message) {
  if (message.remoteDev >= nics_.size() || message.percent > 100) return;
  Path* path = peer.pathOf(message.remoteDev, message.localDev);
  if (path == nullptr) return;
  const int64_t now = runNs();
  if (message.percent < 100) path->wellNs = 0;
  if (message.percent == 100 && path->capacity < 1.0) path->wellNs = now;
  if (path->wellNs != 0 && now - path->wellNs >= kBelieveNs) {
    path->wellNs = 0;
    wellHere(path->local, now);
  }
  path->capacity = message.percent / 100.0;
  healthChanged_ = true;
}

/// Others' traffic to this NIC of ours is as fast as ever again: so may be what we send over it.
void Engine::wellHere(size_t nic, int64_t now) {
  for (const auto& [key, peer] : peers_) {
    if (!peer->weConnect) continue;
    for (const auto& path : peer->paths()) {
      if (path->data && path->local == nic) peer->capacities.hope(*path, now);
    }
  }
}

/// A NIC whose paths are slow may be one that carries more than its siblings, by the schedule of the job or by chance.
double Engine::inAll(size_t nic, double byPaths, int64_t now) {
  if (byPaths <= 0 || byPaths >= 1) return byPaths;
  traffic_.look(now);
  healthChanged_ |= traffic_.waiting(nic);  // asked again at the next tick
  return traffic_.waiting(nic) || traffic_.asBusyAsSiblings(nic) ? 1.0 : byPaths;
}

void Engine::updateHealth(int64_t now) {
  if (!healthChanged_ && now - healthNs_ < kWellAgainNs) return;
  healthChanged_ = false;
  healthNs_ = now;
  std::vector<Evidence> nics(nics_.size());
  for (const auto& [key, peer] : peers_) {
    if (peer->weConnect ? peer->sends.empty() : peer->receivesById.empty()) continue;
    for (const auto& path : peer->paths()) {
      if (!path->data || path->within) continue;
      if (peer->weConnect) tellReceiver(*peer, *path, now);
      Evidence& nic = nics[path->local];
      const double carried = peer->weConnect ? carries(*peer, *path) : path->linked ? path->capacity : -1;
      const bool dead = !path->up();
      nic.here |= peer->weConnect && dead && path->linked && path->blame == Blame::Local;
      nic.dead += carried == 0 ? 1 : 0;
      nic.alive += carried != 0 && path->linked && !dead ? 1 : 0;
      nic.slow += carried > 0 && carried < 1 ? 1 : 0;
      nic.best = std::max(nic.best, carried < 1 ? carried : 0);
      nic.known |= peer->weConnect && carried == 1;
    }
  }
  std::vector<double> capacities;
  capacities.reserve(nics.size());
  for (size_t i = 0; i < nics.size(); i++) capacities.push_back(linkUp(i) ? inAll(i, capacityOf(nics[i]), now) : 0);
  if (health_ != nullptr) health_->set(capacities);
}

}  // namespace r2cc
