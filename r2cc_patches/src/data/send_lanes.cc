// The sending end's lanes: making and losing them, which to keep ready, and which plan is wanted. Engine thread, under
// the engine's mutex.
#include <algorithm>
#include <utility>

#include "data/send_connection.h"
#include "wire/keys.h"

namespace r2cc {
namespace {
constexpr int64_t kStandbyRetryNs = msToNs(500);
constexpr int64_t kEvenNs = msToNs(250), kEvenAgainNs = msToNs(2000);
constexpr int64_t kLostRetryNs = msToNs(10);     // after one that had been made: its path is not chosen again anyway
constexpr int64_t kWantedWaitNs = msToNs(1000);  // then the plan is made of the lanes that came up
constexpr size_t kMostSteps = 3;
constexpr int64_t kPlaceAgainNs = msToNs(1500);  // neighbours believe an announcement after a second
constexpr int kMostPlacings = 4;
constexpr size_t kMostShares = 16;  // lanes are listed in one datagram
// What speaks against a path, in lanes: each outweighs whatever there can be of the one before it.
constexpr size_t kSameHome = size_t{1} << 12, kSameFate = size_t{1} << 28, kByRouter = size_t{1} << 29,
                 kDoubt = size_t{1} << 30, kNoData = size_t{1} << 34;
constexpr int kMostRefusals = 8;

/// Counts connections of this peer that carry something, at home on each local NIC; all of them if none does.
void countDemand(Peer& peer, size_t nics, int64_t now, const Distance& distance) {
  if (peer.demandVersion == peer.plansVersion && peer.demand.size() == nics) return;
  peer.demandVersion = peer.plansVersion;
  for (const bool all : {false, true}) {
    peer.demand.assign(nics, 0.0);
    double sum = 0;
    for (const auto& [id, c] : peer.sends) {
      if (c->home() == nullptr || (!all && !c->carriesLately(now))) continue;
      peer.demand[c->home()->local] += 1.0, sum += 1.0;
    }
    if (sum > 0) break;
  }
  // Also those that rest now, or each would change its plan, and others theirs, whenever it goes on.
  std::vector<Carrier> carriers;
  for (const auto& [id, c] : peer.sends) {
    if (c->home() == nullptr || c->ofSchedule() || c->over() || c->lingers() || c->bytesGiven() == 0) continue;
    carriers.push_back({id, const_cast<Path*>(c->home()), c->context(), c->bytesGiven()});
  }
  peer.whole = wholeByTurns(peer, carriers, peer.demand, distance);
}

}  // namespace

bool SendConnection::opening(const Path* path) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const LanePtr& l) { return !l->usable() && (path == nullptr || l->path == path); });
}

void SendConnection::requestLane(Path* path) {
  const LanePtr lane = makeLane(++lanesMade_, path);
  addLane(lane);
  nextRepeat_ = runNs() + kFirstRepeatNs;
  repeatAfter_ = kFirstRepeatNs;
  peer.tell(OpenLane{id, lane->id, path->local, peer.remote()[path->remote].dev});
}

void SendConnection::onLaneHandle(const LaneHandle& message) {
  const LanePtr lane = findLane(message.lane);
  if (lane == nullptr || lane->state != LaneState::Requested) return;
  if (message.failed != 0) return loseLane(lane, "the receiver could not listen");
  const InnerOps& ops = *lane->inner.ops;
  InnerHandle handle = message.handle;  // the lane's own is followed when it is closed: never one that was refused
  if (ops.unlockHandle != nullptr && !ops.unlockHandle(handle.data(), laneSecret(peer.key.key(), id, lane->id))) {
    return loseLane(lane, "the receiver's handle makes no sense");
  }
  if (peer.key.encrypts() && ops.encryptConnect != nullptr)
    ops.encryptConnect(handle.data(), peer.key.lane(id, lane->id));
  lane->handle = handle;
  services_.connector->make(lane);
}

void SendConnection::onLaneMade(const LanePtr& lane, bool ok) {
  if (lane->state != LaneState::Connecting) return;
  if (!ok) return loseLane(lane, "connect failed");
  prepare(lane);
}

void SendConnection::onPrepared(const LanePtr& lane, bool ok) {
  lane->state = LaneState::Up;
  if (!ok) return loseLane(lane, "memory could not be registered");
  if (lane->remoteUp) laneReady(lane);
}

void SendConnection::onLaneUp(const LaneUp& message) {
  const LanePtr lane = findLane(message.lane);
  if (lane == nullptr) return peer.tell(CloseLane{id, message.lane});  // given up, and the word of it was lost
  if (lane->remoteUp) return;
  lane->remoteUp = true;
  if (message.placed == 0) {
    lane->placed = false;
    nextPlacing_ = runNs() + kPlaceAgainNs;
  }
  if (lane->state == LaneState::Up) laneReady(lane);
}

void SendConnection::laneReady(const LanePtr& lane) {
  recorder_.laneUp(lane->id, lane->path->local, peer.remote()[lane->path->remote].dev);
  if (!lane->placed) services_.misplaced(*lane, /*forGood=*/false);
  nextMaintain_ = 0;
  if (state() == ConnectionState::Active) {
    if (const int64_t now = runNs(); now >= peer.settledNs) (void)approachWanted(now);
  } else if (state() != ConnectionState::Exchanging) {
    startExchange(lane);
  }
}

/// A lane is gone, in whatever state: what that means depends on what it was for.
void SendConnection::loseLane(const LanePtr& lane, const std::string& cause) {
  if (inUse(lane)) return failover({lane}, cause);
  const bool made = lane->usable();
  if (!made) {
    avoid_ = lane->path;
    const bool pathLost = lane->path->state() == PathState::Dead;
    if (state() != ConnectionState::Active && !pathLost) hold_.refuse(lane->path, cause, runNs());
  }
  peer.tell(CloseLane{id, lane->id});
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    dropLane(lane);
  }
  nextTry_ = runNs() + (made ? kLostRetryNs : kStandbyRetryNs);
  // The next tick tries again, elsewhere first: at once would be a loop as fast as the receiver can refuse.
  cause_ = cause;
}

bool SendConnection::spare(const LanePtr& lane) const {
  return lane->usable() && !lane->error && !inUse(lane) && lane->path->up() && !lane->path->doubted();
}

LanePtr SendConnection::idleLane() const {
  LanePtr best;
  const auto worth = [this](const LanePtr& lane) {
    if (lane->path->leaving) return -1;
    return lane->path == home_ ? 2 : peer.kin(*lane->path, *home_) ? 0 : 1;
  };
  for (const LanePtr& lane : lanes_) {
    if (!spare(lane) || unproven(*lane->path)) continue;
    if (best == nullptr || worth(lane) > worth(best)) best = lane;
  }
  return best;
}

/// The path to open a lane on: home if it is up; else one that does not fail with what it is for; of these the one with
/// the fewest lanes of ours on it, first those of connections with the same home, which lose it together: the load of a
/// failed NIC is spread over those that are left. A last resort when there is no other.
Path* SendConnection::bestPath(const Path* avoid) const {
  Path* best = nullptr;
  size_t bestLoad = 0;
  const int64_t now = runNs();
  for (const auto& path : peer.paths()) {
    if (path->use == PathUse::SideOnly || path.get() == avoid) continue;
    const bool last = state() != ConnectionState::Active && path->state() == PathState::Probation;
    if (!path->up() && !last) continue;
    if (path->use == PathUse::LastResort && state() == ConnectionState::Active) continue;
    if ((path->dataDoubted() || path->leaving) && state() == ConnectionState::Active) continue;
    // A lane in reserve must outlive what it stands by for; one to go on with only shun what fails with home.
    const bool reserve = state() == ConnectionState::Active && avoid != nullptr;
    const bool sameFate = reserve ? !peer.apart(*path, *avoid) : peer.kin(*path, *home_);
    const int refusals = hold_.refusals(path.get());
    const bool doubted = path->doubted() || path->leaving || refusals > 0;
    if (path.get() == home_ && !doubted && !(reserve && sameFate)) return path.get();
    const bool doubtful = path->doubted() || path->leaving || unproven(*path) || path->mute(now);
    const int against = (path->up() ? 0 : 1) + (doubtful ? 1 : 0) + std::min(refusals, kMostRefusals);
    const size_t noData = !path->data ? kNoData : refusals > 0 && held() ? 2 * kNoData : 0;
    size_t load =
        static_cast<size_t>(against) * kDoubt + noData + (sameFate ? kSameFate : 0) + (path->byRouter ? kByRouter : 0);
    for (const auto& [other, connection] : peer.sends) {
      const size_t each = connection->home_ == home_ ? kSameHome : 1;
      for (const LanePtr& lane : connection->lanes_) load += lane->path == path.get() ? each : 0;
    }
    if (best == nullptr || load < bestLoad) best = path.get(), bestLoad = load;
  }
  return best;
}

// ---- lanes in reserve -------------------------------------------------------------------------------------------

bool SendConnection::standsBy(const LanePtr& lane, const Lane& used) const {
  if (!spare(lane) || lane->path == used.path) return false;
  return peer.apart(*lane->path, *used.path) || !peer.hasApart(*used.path);
}

bool SendConnection::covered(const Lane* without) const {
  for (const LanePtr& used : plan_.lanes()) {
    const bool spared = std::any_of(lanes_.begin(), lanes_.end(), [&](const LanePtr& lane) {
      return lane.get() != without && standsBy(lane, *used);
    });
    if (!spared) return false;
  }
  return true;
}

void SendConnection::keepStandby(int64_t now) {
  if (now < std::max(nextStandby_, nextTry_) || opening(nullptr)) return;
  for (const LanePtr& used : plan_.lanes()) {
    const bool covers = std::any_of(lanes_.begin(), lanes_.end(), [&](const LanePtr& lane) {
      return standsBy(lane, *used) && !unproven(*lane->path);
    });
    Path* better = covers ? evener(*used, now) : nullptr;
    if (better != nullptr) return requestLane(better);
    if (covers) continue;
    nextStandby_ = now + kStandbyRetryNs;
    Path* path = bestPath(used->path);
    const auto idle = [&](const LanePtr& lane) { return lane->path == path && spare(lane); };
    if (path != nullptr && std::none_of(lanes_.begin(), lanes_.end(), idle)) return requestLane(path);
  }
}

/// Lanes there of the connections that lose their home when this one does, with this one's own.
size_t SendConnection::together(const Path& path) const {
  size_t lanes = 0;
  for (const auto& [other, connection] : peer.sends) {
    if (connection->home_ != home_) continue;
    for (const LanePtr& lane : connection->lanes_) lanes += lane->path == &path ? 1 : 0;
  }
  return lanes;
}

/// While NICs went and came, lanes in reserve were made on those that were left: what loses its home together would
/// meet on some of the NICs, and the others would carry nothing of it. A path on which this one's reserve does better.
Path* SendConnection::evener(const Lane& used, int64_t now) {
  if (now < nextEven_) return nullptr;
  nextEven_ = now + kEvenNs;
  const Path* reserve = nullptr;
  for (const LanePtr& lane : lanes_) {
    if (!standsBy(lane, used)) continue;
    if (reserve != nullptr) return nullptr;  // prune() chooses first
    reserve = lane->path;
  }
  Path* path = bestPath(used.path);
  const auto there = [&](const LanePtr& lane) { return lane->path == path; };
  const bool fits =
      path != nullptr && reserve != nullptr && !unproven(*path) && std::none_of(lanes_.begin(), lanes_.end(), there);
  if (!fits || together(*reserve) < together(*path) + 2) return nullptr;
  nextEven_ = now + kEvenAgainNs;
  return path;
}

/// What no failover would need; the rest would be descriptors that only grow. First what could not be gone on with,
/// then what meets the most.
void SendConnection::prune() {
  const auto worth = [this](const Lane& lane) {
    const bool doubtful = lane.path->leaving || lane.path->doubted() || unproven(*lane.path);
    return std::pair(!doubtful, -static_cast<int64_t>(together(*lane.path)));
  };
  LanePtr least;
  for (const LanePtr& lane : lanes_) {
    if (!lane->usable() || inUse(lane) || !covered(lane.get())) continue;
    if (least == nullptr || worth(*lane) < worth(*least)) least = lane;
  }
  if (least == nullptr) return;
  peer.tell(CloseLane{id, least->id});
  const Owned owned(owner_, Owned::Wait::Yes);
  dropLane(least);
}

// ---- the plan that is wanted ------------------------------------------------------------------------------------

std::vector<Share> SendConnection::sharesOf(const PlanStep& step) {
  std::vector<Share> out;
  for (const PlanLane& l : step.lanes()) out.push_back({l.lane->path, l.weight});
  return out;
}

bool SendConnection::atHome() const {
  const auto& lanes = plan_.newest().lanes();
  return lanes.size() == 1 && lanes[0].lane->path == home_;
}

/// The schedule that runs was made for a home that is gone. Back at home this connection would load it, and its other
/// end's NIC, with more than any other: so it waits for the next schedule, unless one of the others is lost, too.
void SendConnection::stayAway(uint64_t schedule) {
  const auto well = [](const Path& path) { return path.carriesData() && path.capacity >= 1.0; };
  if (!well(*home_)) {
    awayUnder_ = schedule;
    away_ = wanted_;
  } else if (schedule == 0 || awayUnder_ != schedule ||
             !std::all_of(away_.begin(), away_.end(), [&](const Share& share) { return well(*share.path); })) {
    awayUnder_ = 0;
  } else {
    wanted_ = away_;
  }
}

void SendConnection::refreshWanted(int64_t now) {
  if (wantedVersion_ == peer.plansVersion) return;
  wantedVersion_ = peer.plansVersion;
  wantedSince_ = now;
  wanted_.clear();
  // What NCCL chose may have joined since.
  if (const Path* chosen = peer.route(homeDev_, remoteHomeDev_)) home_ = chosen;
  auto* home = const_cast<Path*>(home_);
  if (services_.mode >= 2) {
    const size_t nics = services_.local->size();
    const RunningSchedule schedule = services_.schedule ? services_.schedule(madeFor_.schedule) : RunningSchedule{};
    if (schedule.inTurn && window_.ofSchedule()) wanted_ = shareInTurn(peer, home, madeFor_.turn);
    const bool evenly = schedule.number != 0;
    if (!evenly) countDemand(peer, nics, now, services_.distance);
    const auto whole = peer.whole.find(id);
    const bool lost = !home->carriesData() || home->capacity <= 0;
    whole_ = wanted_.empty() && !evenly && lost && whole != peer.whole.end();
    if (whole_) wanted_ = {{whole->second, 1}};
    const std::vector<double>& demand = evenly ? std::vector<double>(nics, 1.0) : peer.demand;
    if (wanted_.empty()) wanted_ = balancedShares(peer, home, demand, services_.distance);
    if (wanted_.size() > kMostShares) wanted_.resize(kMostShares);
    if (window_.ofSchedule()) stayAway(schedule.number);
    return;
  }
  if (home_->state() == PathState::Up && !home_->dataDoubted() && !home_->leaving) {
    wanted_ = {{home, 1}};
  } else if (planPath()->use == PathUse::LastResort || planPath()->byRouter || planPath()->leaving) {
    if (Path* path = bestPath(nullptr)) wanted_ = {{path, 1}};
  }
}

LanePtr SendConnection::laneOn(const Path* path) const {
  if (path->doubted()) return nullptr;
  for (const PlanLane& l : plan_.newest().lanes()) {
    if (l.lane->path == path && l.lane->usable() && !l.lane->error) return l.lane;
  }
  for (const LanePtr& lane : lanes_) {
    if (lane->path == path && spare(lane)) return lane;
  }
  return nullptr;
}

/// Where NICs share a subnet the first lanes may arrive at the wrong one, until its neighbours know better (announce):
/// then a new lane takes the place of such a one. False: nothing is to be done, or nothing can.
bool SendConnection::placeLanes(int64_t now) {
  if (now < nextPlacing_) return false;
  std::vector<PlanLane> lanes = plan_.newest().lanes();
  bool better = false;
  for (PlanLane& used : lanes) {
    if (used.lane->placed) continue;
    const auto placed = std::find_if(lanes_.begin(), lanes_.end(), [&](const LanePtr& l) {
      return l->path == used.lane->path && l->placed && spare(l);
    });
    if (placed != lanes_.end()) {
      used.lane = *placed;
      better = true;
    } else if (placings_ >= kMostPlacings) {
      services_.misplaced(*used.lane, /*forGood=*/true);
      nextPlacing_ = INT64_MAX;
    } else if (!opening(used.lane->path)) {
      placings_++;
      nextPlacing_ = now + kPlaceAgainNs;
      requestLane(used.lane->path);
    }
  }
  if (better) startSwitch(std::move(lanes), plan_.newest().cut);
  return better;
}

Slicing SendConnection::wantedCut(size_t lanes) const {
  if (lanes < 2) return {};
  const Load::Usual usual = load_.usual();
  return usual.inFlight == 0 ? plan_.newest().cut : slicingFor(lanes, usual.inFlight, usual.bytes);
}

bool SendConnection::keepsCut(size_t lanes, int64_t now) {
  return !cutChange_.due(plan_.newest().cut, wantedCut(lanes), now);
}

bool SendConnection::approachWanted(int64_t now) {
  // What is under way may keep old steps for long; a few of those must not keep it from a better plan.
  if (proposed_ || (plan_.size() > kMostSteps && !idle(now))) return true;
  refreshWanted(now);
  if (now < nextSwitch_ || wanted_.empty()) return false;
  if (sameShares(wanted_, current()) && keepsCut(wanted_.size(), now)) return placeLanes(now);
  std::vector<PlanLane> lanes;
  std::vector<Share> there;
  bool missing = false;
  for (const Share& share : wanted_) {
    const LanePtr lane = laneOn(share.path);
    if (lane != nullptr) {
      lanes.push_back({lane, share.weight});
      there.push_back(share);
      continue;
    }
    missing = true;
    if (!share.path->doubted() && !opening(share.path) && now >= nextTry_) requestLane(share.path);
  }
  if (missing && now - wantedSince_ < kWantedWaitNs) return true;
  if (there.empty() && std::exchange(whole_, false)) {  // no lane comes up there: as one that does not go round
    wanted_ = balancedShares(peer, const_cast<Path*>(home_), peer.demand, services_.distance);
    wantedSince_ = now;
    return true;
  }
  const bool same = sameShares(there, current());
  if (there.empty() || (same && keepsCut(there.size(), now))) return missing;
  same ? cutChange_.changed(now) : cutChange_.reset();
  startSwitch(std::move(lanes), wantedCut(there.size()));
  return true;
}

}  // namespace r2cc
