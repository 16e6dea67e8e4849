#include "health/nic_report.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace r2cc {

/// What is known of one NIC's paths.
struct NicReport::Evidence {
  int dead = 0, alive = 0;  // paths
  int slow = 0;
  double best = 0;     // of those
  bool known = false;  // some path over it is known to be whole
  bool here = false;   // a silence was located at this NIC

  double capacity() const {
    if (here || (dead >= 2 && alive == 0)) return 0;
    return slow >= 2 && !known ? best : 1.0;
  }
};

namespace {

constexpr int64_t kSayAgainNs = msToNs(500);   // datagrams get lost
constexpr int kTimesWhole = 3;                 // how often it is said that a path is whole again
constexpr int64_t kWellAgainNs = msToNs(250);  // and how soon again
constexpr int64_t kBelieveNs = msToNs(200);    // a try that was wrong is taken back sooner

/// What a path carries beside a whole one; -1: nothing is known of it.
double carries(const Peer& peer, const Path& path) {
  if (!path.linked) return -1;
  if (path.state() == PathState::Dead || path.state() == PathState::Probation) return path.asks == 1 ? -1 : 0;
  return path.capacity < 1.0 || peer.capacities.knows(path) ? path.capacity : -1;
}

/// The same of its NIC at this end: where the other end is at fault nothing is known.
double carriesHere(const Peer& peer, const Path& path) {
  return path.blame == Blame::Remote && !path.up() ? -1 : carries(peer, path);
}

/// Said when it changes, again while it is less than all, and some times when it is whole again. That its own NIC is at
/// fault the other end may not find out by itself: it hears nobody there, as one does to whom nobody sends.
void tellReceiver(Peer& peer, Path& path, int64_t now) {
  const double carried = carries(peer, path);
  const auto percent = static_cast<uint8_t>(carried < 0 ? 100 : std::lround(100 * carried));  // no news is good news
  const bool changed = percent != path.saidPercent;
  if (changed || percent < 100) path.saysLeft = kTimesWhole;
  const int64_t again = percent < 100 ? kSayAgainNs : kWellAgainNs;
  if (path.saysLeft == 0 || (!changed && now - path.saidNs < again)) return;
  path.saysLeft--;
  path.saidPercent = percent;
  path.saidNs = now;
  peer.tellEverywhere(PathHealth{path.local, peer.remote()[path.remote].dev, percent});
}

}  // namespace

NicReport::NicReport(Shared& shared, HealthBoard* board) : shared_(shared), board_(board) {
  for (const LocalNic& nic : shared_.nics) traffic_.add(nic.name);
}

void NicReport::open() {
  if (board_ == nullptr) return;
  std::vector<R2ccNicHealth> out;
  std::set<uint8_t> domains;
  const std::vector<LocalNic>& nics = shared_.nics;
  for (size_t i = 0; i < nics.size() && (nics[i].address.flags & (kSideOnly | kLastResort)) == 0; i++) {
    R2ccNicHealth nic{};
    nics[i].name.copy(nic.name, sizeof(nic.name) - 1);
    nic.capacity = shared_.linkUp(i) ? 1.0 : 0.0;
    nic.rate_gbit = nics[i].rateGbit;
    out.push_back(nic);
    domains.insert(nics[i].address.domain);
  }
  const bool failTogether = domains.size() < out.size();
  board_->open(std::move(out), failTogether);
}

void NicReport::close() {
  if (board_ != nullptr) board_->open({});
}

void NicReport::path(const Peer& peer, const Path& path, const char* state, const std::string& cause) {
  changed();
  // The sending end judges; two ends would say everything twice.
  if (!peer.weConnect || path.use == PathUse::SideOnly) return;
  if (shared_.flight != nullptr) {
    const auto now = static_cast<uint8_t>(path.state());
    shared_.flight->path(path.local, peer.remote()[path.remote].dev, peer.describe(), now, cause);
  }
  auto line = shared_.events.line("nic");
  line.add("nic", shared_.nics[path.local].name).add("peer", peer.describe());
  line.add("peer_nic", peer.remote()[path.remote].dev).add("state", state).add("cause", cause);
}

void NicReport::onPathHealth(const Peer& peer, const PathHealth& message) {
  if (message.remoteDev >= shared_.nics.size() || message.percent > 100) return;
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
  changed_ = true;
}

/// Others' traffic to this NIC of ours is as fast as ever again: so may be what we send over it.
void NicReport::wellHere(size_t nic, int64_t now) {
  for (const auto& [key, peer] : shared_.peers) {
    if (!peer->weConnect) continue;
    for (const auto& path : peer->paths()) {
      if (path->data && path->local == nic) peer->capacities.hope(*path, now);
    }
  }
}

/// A NIC whose paths are slow may be one that carries more than its siblings, by the schedule of the job or by chance.
double NicReport::inAll(size_t nic, double byPaths, int64_t now) {
  if (byPaths <= 0 || byPaths >= 1) return byPaths;
  traffic_.look(now);
  changed_ |= traffic_.waiting(nic);  // asked again at the next tick
  return traffic_.waiting(nic) || traffic_.asBusyAsSiblings(nic) ? 1.0 : byPaths;
}

std::vector<NicReport::Evidence> NicReport::evidence(int64_t now) {
  std::vector<Evidence> nics(shared_.nics.size());
  for (const auto& [key, peer] : shared_.peers) {
    if (peer->weConnect ? peer->sends.empty() : peer->receivesById.empty()) continue;
    for (const auto& path : peer->paths()) {
      if (!path->data || path->within) continue;
      if (peer->weConnect) tellReceiver(*peer, *path, now);
      Evidence& nic = nics[path->local];
      const double carried = peer->weConnect ? carriesHere(*peer, *path) : path->linked ? path->capacity : -1;
      const bool dead = !path->up();
      nic.here |= peer->weConnect && dead && path->linked && path->blame == Blame::Local;
      nic.dead += carried == 0 ? 1 : 0;
      nic.alive += carried != 0 && path->linked && !dead ? 1 : 0;
      nic.slow += carried > 0 && carried < 1 ? 1 : 0;
      nic.best = std::max(nic.best, carried < 1 ? carried : 0);
      nic.known |= peer->weConnect && carried == 1;
    }
  }
  return nics;
}

void NicReport::tick(int64_t now) {
  if (const uint64_t runs = schedule().number; runs != std::exchange(schedule_, runs)) {
    for (const auto& [key, peer] : shared_.peers) peer->plansVersion++;  // shares are given out otherwise
  }
  if (!changed_ && now - lookedNs_ < kWellAgainNs) return;
  changed_ = false;
  lookedNs_ = now;
  const std::vector<Evidence> nics = evidence(now);
  std::vector<double> capacities;
  capacities.reserve(nics.size());
  for (size_t i = 0; i < nics.size(); i++) {
    capacities.push_back(shared_.linkUp(i) ? inAll(i, nics[i].capacity(), now) : 0);
  }
  if (board_ != nullptr) board_->set(capacities);
  if (capacities == capacities_) return;
  capacities_ = std::move(capacities);
  version_++;
}

}  // namespace r2cc
