// The sending end as coordinator: lanes, failover, switch. Engine thread, under the engine's mutex.
#include <algorithm>

#include "send_connection.h"

namespace r2cc {
namespace {
constexpr int64_t kFirstRepeatNs = msToNs(4);
constexpr int64_t kMaxRepeatNs = msToNs(50);
constexpr int64_t kStandbyRetryNs = msToNs(500);
constexpr uint64_t kSwitchAhead = 8;  // messages: NCCL's slots, so that the answer is there before anyone has to wait
constexpr int64_t kSwitchLimitNs = msToNs(1000);  // a switch that is not agreed by then becomes a failover
constexpr int64_t kLaneLimitNs = msToNs(3000);    // a lane that takes longer is tried elsewhere
}  // namespace

void SendConnection::onWelcome(const Welcome& message) {
  if (welcomed_ || over()) return;
  if (message.known == 0) return fail("peer " + peer.describe() + " knows nothing of this connection");
  welcomed_ = true;
  home_ = peer.route(homeDev_, remoteHomeDev_);
  if (home_ == nullptr) return fail("no path to peer " + peer.describe() + ": no NICs share a network");
  recover("connect");
}

// ---- lanes ------------------------------------------------------------------------------------------------------

bool SendConnection::opening(const Path* path) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const LanePtr& l) { return !l->usable() && (path == nullptr || l->path == path); });
}

uint32_t SendConnection::oldestLane() const {
  uint32_t oldest = UINT32_MAX;
  for (const LanePtr& lane : lanes_) oldest = std::min(oldest, lane->id);
  return oldest;
}

void SendConnection::requestLane(Path* path) {
  const auto lane =
      std::make_shared<Lane>(this, ++lanesMade_, /*sends=*/true, path, path->local, services_.inner, ctx_);
  lane->createdNs = nowNs();
  lanes_.push_back(lane);
  nextRepeat_ = nowNs() + kFirstRepeatNs;
  repeatAfter_ = kFirstRepeatNs;
  peer.tell(OpenLane{id, lane->id, path->local, peer.remote()[path->remote].dev});
}

void SendConnection::onLaneHandle(const LaneHandle& message) {
  const LanePtr lane = findLane(message.lane);
  if (lane == nullptr || lane->state != LaneState::Requested) return;
  if (message.failed != 0) return loseLane(lane, "the receiver could not listen");
  lane->handle = message.handle;
  services_.connector->make(lane);
}

void SendConnection::onLaneMade(const LanePtr& lane, bool ok) {
  if (lane->state != LaneState::Connecting) return;
  if (!ok) return loseLane(lane, "connect failed");
  lane->state = LaneState::Up;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    ok = registerOn(lane);
  }
  if (!ok) return loseLane(lane, "memory could not be registered");
  if (lane->remoteUp) laneReady(lane);
}

void SendConnection::onLaneUp(const LaneUp& message) {
  const LanePtr lane = findLane(message.lane);
  if (lane == nullptr || lane->remoteUp) return;
  lane->remoteUp = true;
  if (lane->state == LaneState::Up) laneReady(lane);
}

void SendConnection::laneReady(const LanePtr& lane) {
  if (state() == ConnectionState::Active) {
    if (lane->path == home_ && planPath() != home_ && !switching_) startSwitch(lane);
  } else if (state() != ConnectionState::Exchanging) {
    startExchange(lane);
  }
}

/// A lane is gone, in whatever state: what that means depends on what it was for.
void SendConnection::loseLane(const LanePtr& lane, const std::string& cause) {
  if (inPlan(lane) || lane == target_) return failover(lane, cause);
  if (!lane->usable()) avoid_ = lane->path;
  peer.tell(CloseLane{id, lane->id});
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    dropLane(lane);
  }
  nextStandby_ = nowNs() + kStandbyRetryNs;
  // The next tick tries again, elsewhere first: at once would be a loop as fast as the receiver can refuse.
  cause_ = cause;
}

LanePtr SendConnection::idleLane(const Path* avoid) const {
  LanePtr best;
  for (const LanePtr& lane : lanes_) {
    if (!lane->usable() || lane->error || inPlan(lane) || lane == target_) continue;
    if (!lane->path->up() || lane->path == avoid) continue;
    if (best == nullptr || lane->path == home_) best = lane;
  }
  return best;
}

/// The path to open a lane on: home if it is up; else the one with the fewest connections of ours on it, so that the
/// load of a failed NIC is spread over those that are left.
Path* SendConnection::bestPath(const Path* avoid) const {
  Path* best = nullptr;
  size_t bestLoad = 0;
  for (const auto& path : peer.paths()) {
    if (!path->data || path.get() == avoid) continue;
    const bool last = state() != ConnectionState::Active && path->state() == PathState::Probation;
    if (!path->up() && !last) continue;
    if (path.get() == home_) return path.get();
    size_t load = path->up() ? 0 : 1000;
    for (const auto& [other, connection] : peer.sends) {
      for (const LanePtr& lane : connection->lanes_) load += lane->path == path.get() ? 1 : 0;
    }
    if (best == nullptr || load < bestLoad) best = path.get(), bestLoad = load;
  }
  return best;
}

// ---- failover ---------------------------------------------------------------------------------------------------

void SendConnection::failover(const LanePtr& lane, const std::string& cause) {
  if (over()) return;
  const bool counted = state() == ConnectionState::Active;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    // A target whose exchange did not finish may carry posted receives at the other end: it is not fresh any more.
    if (target_ != nullptr) {
      peer.tell(CloseLane{id, target_->id});  // heeded only if it is not in the receiver's plan
      dropLane(target_);
    }
    if (findLane(lane->id) != nullptr) dropLane(lane);
    for (const PlanStep& step : plan_) {
      if (findLane(step.lane->id) != nullptr) dropLane(step.lane);
    }
    target_ = nullptr;
    switching_ = false;
    holdFrom_ = UINT64_MAX;
    attention_ = false;
    setState(ConnectionState::Frozen, cause);
    plan_.clear();
  }
  if (counted) failovers++;
  recover(cause);
}

/// Finds the lane to go on with: an idle one at once, else a new one, else none until a path returns.
void SendConnection::recover(const std::string& cause) {
  cause_ = cause;
  if (const LanePtr lane = idleLane(nullptr)) return startExchange(lane);
  if (opening(nullptr)) return;
  Path* path = bestPath(avoid_);
  if (path == nullptr) path = bestPath(nullptr);
  if (path != nullptr) {
    if (state() == ConnectionState::Holding) setState(ConnectionState::Frozen, "a path returned");
    return requestLane(path);
  }
  if (state() == ConnectionState::Holding) return;
  holdingSince_ = nowNs();
  setState(ConnectionState::Holding, cause);
}

void SendConnection::startExchange(const LanePtr& lane) {
  target_ = lane;
  epoch_++;
  setState(ConnectionState::Exchanging, cause_);
  nextRepeat_ = nowNs() + kFirstRepeatNs;
  repeatAfter_ = kFirstRepeatNs;
  peer.tell(Freeze{id, epoch_, lane->id, released_, oldestLane()});
}

void SendConnection::onFenced(const Fenced& message) {
  if (state() != ConnectionState::Exchanging || message.epoch != epoch_) return;
  if (message.laneUsable == 0) return failover(target_, "the receiver lost the lane");
  if (!resume(message)) {
    fail("peer " + peer.describe() + " counts messages that were never sent, or lacks some it confirmed");
  }
}

bool SendConnection::resume(const Fenced& message) {
  const Owned owned(owner_, Owned::Wait::Yes);
  if (message.delivered < released_ || message.delivered > posted_) return false;
  applyFenced(message);
  plan_.assign(1, {0, target_});
  target_ = nullptr;
  avoid_ = nullptr;
  const auto replayed = std::count_if(std::begin(requests_), std::end(requests_),
                                      [&](const Request& r) { return r.used && !r.finished && r.number < posted_; });
  setState(ConnectionState::Active, cause_, replayed);
  everActive_ = true;
  pump();
  return true;
}

void SendConnection::onSuspect(const Suspect& message) {
  const LanePtr lane = findLane(message.lane);
  if (lane == nullptr || message.epoch != epoch_) return;
  loseLane(lane, "the receiver reports a transport error");
}

void SendConnection::onPathDown(const Path* path, const std::string& cause) {
  const std::vector<LanePtr> lanes = lanes_;
  // Idle lanes first: none of them may be chosen as the target of the failover that follows.
  for (const LanePtr& lane : lanes) {
    if (lane->path == path && !inPlan(lane) && lane != target_) loseLane(lane, cause);
  }
  for (const LanePtr& lane : lanes) {
    if (lane->path == path && (inPlan(lane) || lane == target_)) return failover(lane, cause);
  }
}

// ---- switch -----------------------------------------------------------------------------------------------------

void SendConnection::startSwitch(const LanePtr& lane) {
  const Owned owned(owner_, Owned::Wait::Yes);
  target_ = lane;
  switching_ = true;
  switchSince_ = nowNs();
  epoch_++;
  holdFrom_ = posted_ + kSwitchAhead;
  nextRepeat_ = nowNs() + kFirstRepeatNs;
  repeatAfter_ = kFirstRepeatNs;
  peer.tell(Switch{id, epoch_, lane->id, holdFrom_});
}

void SendConnection::onSwitched(const Switched& message) {
  if (!switching_ || message.epoch != epoch_) return;
  if (message.boundary < holdFrom_) return fail("peer " + peer.describe() + " lowered a switch boundary");
  const Owned owned(owner_, Owned::Wait::Yes);
  plan_.push_back({message.boundary, target_});
  target_ = nullptr;
  switching_ = false;
  holdFrom_ = UINT64_MAX;
  failbacks++;
  setState(ConnectionState::Active, "failback");
  pump();
}

// ---- the clock --------------------------------------------------------------------------------------------------

void SendConnection::tick(int64_t now) {
  if (over()) return;
  if (attention()) {
    const std::vector<LanePtr> lanes = lanes_;
    attention_ = false;
    for (const LanePtr& lane : lanes) {
      if (lane->error && findLane(lane->id) != nullptr) loseLane(lane, "transport error");
    }
  }
  if (switching_ && now - switchSince_ > kSwitchLimitNs) {
    const LanePtr lane = target_;
    failover(lane, "the receiver did not agree to the switch");
  }
  if (now >= nextRepeat_) repeat(now);
  if (welcomed_) maintain(now);
  if (state() == ConnectionState::Holding && now - holdingSince_ > services_.holdNs) {
    fail("no path to peer " + peer.describe() + " for " + std::to_string(services_.holdNs / 1000000) +
         " ms (R2CC_HOLD_MS); last cause: " + cause_);
  }
}

/// Requests are repeated until answered, on every path: the best two may be black holes.
void SendConnection::repeat(int64_t now) {
  repeatAfter_ = std::min(std::max(repeatAfter_, kFirstRepeatNs) * 2, kMaxRepeatNs);
  nextRepeat_ = now + repeatAfter_;
  if (!welcomed_) return peer.tellEverywhere(Hello{id, listen_, homeDev_, ourNics_});
  for (const LanePtr& lane : lanes_) {
    if (lane->remoteUp) continue;
    peer.tellEverywhere(OpenLane{id, lane->id, lane->path->local, peer.remote()[lane->path->remote].dev});
  }
  if (state() == ConnectionState::Exchanging) {
    peer.tellEverywhere(Freeze{id, epoch_, target_->id, released_, oldestLane()});
  }
  if (switching_) peer.tellEverywhere(Switch{id, epoch_, target_->id, holdFrom_});
}

void SendConnection::maintain(int64_t now) {
  const auto late = [&](const LanePtr& lane) { return !lane->usable() && now - lane->createdNs > kLaneLimitNs; };
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), late);
  if (lane != lanes_.end()) return loseLane(LanePtr(*lane), "the lane could not be made in time");
  switch (state()) {
    case ConnectionState::Connecting:
    case ConnectionState::Frozen:
    case ConnectionState::Holding:
      return recover(cause_);
    case ConnectionState::Exchanging:
    case ConnectionState::Closed:
    case ConnectionState::Failed:
      return;
    case ConnectionState::Active:
      break;
  }
  if (plan_.size() > 1) {  // only the engine changes a sender's plan
    const Owned owned(owner_, Owned::Wait::Yes);
    trimPlan(acked_.load(std::memory_order_relaxed));
  }
  if (switching_ || plan_.size() > 1 || now < nextStandby_) return;
  const bool away = planPath() != home_;
  if (away && home_->state() == PathState::Up) {
    const LanePtr back = idleLane(nullptr);
    if (back != nullptr && back->path == home_) return startSwitch(back);
    if (!opening(home_)) requestLane(const_cast<Path*>(home_));
  } else if (idleLane(planPath()) == nullptr && !opening(nullptr)) {
    nextStandby_ = now + kStandbyRetryNs;
    if (Path* path = bestPath(planPath())) requestLane(path);
  }
  prune();
}

/// One idle lane is enough; the rest would be descriptors that only grow.
void SendConnection::prune() {
  const LanePtr keep = idleLane(planPath());
  const auto spare = [&](const LanePtr& l) { return l->usable() && !inPlan(l) && l != target_ && l != keep; };
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), spare);
  if (keep == nullptr || lane == lanes_.end()) return;
  peer.tell(CloseLane{id, (*lane)->id});
  const Owned owned(owner_, Owned::Wait::Yes);
  dropLane(*lane);
}

void SendConnection::onBye(uint64_t delivered) {
  if (over()) return;
  bool missing = false;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    onAck(std::min(delivered, posted_));
    missing = acked_.load(std::memory_order_relaxed) < posted_;
    if (!missing) {
      for (Request& r : requests_) r.finished = true;  // the receiver has them all, whatever the transport still says
      setState(ConnectionState::Closed, "by the receiver");
      dropAll();  // NCCL may now take the memory away, whatever the transport is still doing with it
    }
  }
  if (missing) fail("peer " + peer.describe() + " closed the connection before it had everything");
}

}  // namespace r2cc
