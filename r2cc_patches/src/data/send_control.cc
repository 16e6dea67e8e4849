// The sending end as coordinator: failover, switch, and the clock. Engine thread, under the engine's mutex.
#include <algorithm>

#include "data/send_connection.h"

namespace r2cc {
namespace {
constexpr int64_t kMaxRepeatNs = msToNs(50);
constexpr int64_t kExchangeNs = usToNs(200);  // what one of many adds: repeats would come on top of what is being done
constexpr int64_t kMaxConnectRepeatNs = msToNs(500);  // thousands connect at once when a job starts
// Messages that go before a switch, so that the answer is there before anyone has to wait: NCCL's slots, fewer large
// ones.
constexpr uint64_t kSwitchAhead = 8, kSwitchAheadBytes = 1 << 20;
constexpr int64_t kSwitchLimitNs = msToNs(1000);  // a switch that is not agreed by then is settled by an exchange
constexpr int64_t kSwitchPauseNs = msToNs(2000);  // then it is tried again; twice as long each time, up to the most
constexpr int64_t kMostSwitchPauseNs = msToNs(32000);
constexpr int kMaxLateLanes = 3;  // a lane that takes too long is tried elsewhere, for twice as long
constexpr int64_t kMaintainNs = msToNs(10);
constexpr int64_t kDataFirstNs = msToNs(10);  // after a failover: making lanes costs both hosts CPU
}  // namespace

void SendConnection::onWelcome(const Welcome& message) {
  if (welcomed_ || over()) return;
  if (message.known == 0) return fail("the peer knows nothing of it");
  welcomed_ = true;
  home_ = peer.route(homeDev_, remoteHomeDev_);
  if (home_ == nullptr) home_ = peer.anyRoute(homeDev_);
  if (home_ == nullptr) return fail("no NICs of the two hosts share a network");
  recover("connect");
}

// ---- failover ---------------------------------------------------------------------------------------------------

bool SendConnection::inUse(const LanePtr& lane) const {
  return inPlan(lane) || lane == target_ || (proposed_ && proposed_->has(lane.get()));
}

void SendConnection::failover(const std::vector<LanePtr>& lanes, const std::string& cause) {
  if (over()) return;
  if (state() == ConnectionState::Active && !lanes.empty()) failingOver_ = lostBy_ = cause;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    for (const LanePtr& lane : lanes) {
      if (findLane(lane->id) != nullptr) dropLane(lane);
    }
    // A target whose exchange did not finish may carry posted receives at the other end: it is not fresh any more.
    if (target_ != nullptr && findLane(target_->id) != nullptr) dropLane(target_);
    target_ = nullptr;
    setState(ConnectionState::Frozen, cause);
  }
  if (hasOutstanding()) peer.settledNs = runNs() + kDataFirstNs;
  recover(cause);
}

/// When it goes on, or has no path to: at a job's end a lane may break before the receiver's Bye is here, and that was
/// no failover.
void SendConnection::countFailover() {
  if (failingOver_.empty()) return;
  failovers++;
  if (services_.tally != nullptr) services_.tally->failover(failingOver_);
  failingOver_.clear();
}

/// Finds the lane to go on with: an idle one at once, else a new one, else none until a path returns.
void SendConnection::recover(const std::string& cause) {
  cause_ = cause;
  const bool lacks = plan_.empty() || plan_.broken() || (proposed_ && proposed_->broken());
  if (!lacks) return startExchange(nullptr);
  if (const LanePtr lane = idleLane()) return startExchange(lane);
  if (opening(nullptr)) return;
  Path* path = bestPath(avoid_);
  if (path == nullptr) path = bestPath(nullptr);
  if (path == nullptr) peer.addByRouter();
  if (path != nullptr) {
    if (state() == ConnectionState::Holding) setState(ConnectionState::Frozen, "a path returned");
    if (hold_.mayTry(path, runNs())) requestLane(path);
    return;
  }
  if (state() == ConnectionState::Holding) return;
  if (!everActive_) hold_.forgetNoPath();
  countFailover();
  services_.info("R2CC: no path to peer " + peer.describe() + " (" + cause + "): holding for up to " +
                 std::to_string(services_.holdNs / 1000000) + " ms (R2CC_HOLD_MS)");
  setState(ConnectionState::Holding, cause);
}

void SendConnection::onAllFenced() {
  const bool waits = state() == ConnectionState::Connecting || state() == ConnectionState::Frozen ||
                     state() == ConnectionState::Holding;
  if (waits && welcomed_) recover(cause_);
}

Freeze SendConnection::freeze() const {
  Freeze out;
  out.connection = id;
  out.epoch = epoch_;
  out.lane = target_ == nullptr ? kNoLane : target_->id;
  out.completed = safeBelow();
  out.newestLane = lanesMade_;
  for (const LanePtr& lane : lanes_) out.lanes.push_back(lane->id);
  return out;
}

/// Only when what it no longer names is fenced (invariant 3); onAllFenced comes back to it.
void SendConnection::startExchange(const LanePtr& lane) {
  if (fencing()) return;
  target_ = lane;
  epoch_++;
  setState(ConnectionState::Exchanging, cause_);
  repeatAfter_ = std::min(kFirstRepeatNs + peer.exchanging * kExchangeNs, kMaxRepeatNs);
  nextRepeat_ = runNs() + repeatAfter_;
  recorder_.freeze(epoch_, lane == nullptr ? kNoLane : lane->id, safeBelow());
  peer.tell(freeze());
}

void SendConnection::onFenced(const Fenced& message) {
  if (state() != ConnectionState::Exchanging || message.epoch != epoch_) return;
  recorder_.fenced(epoch_, message.delivered, message.laneUsable != 0);
  if (message.laneUsable == 0 && target_ != nullptr) return failover({target_}, "the receiver lost the lane");
  if (const char* why = resume(message)) fail(why);
}

const char* SendConnection::resume(const Fenced& message) {
  const Owned owned(owner_, Owned::Wait::Yes);
  if (message.delivered > posted_) return "the peer counts messages that were never sent";
  if (lost(message)) return "messages that NCCL was told are delivered are missing at the peer (invariant 3)";
  if (proposed_) settleSwitch(message.switchedEpoch == proposedEpoch_ ? message.switchedBoundary : UINT64_MAX);
  const int64_t replayed = applyFenced(message);
  if (plan_.empty()) {
    plan_.add(PlanStep(0, {{target_, 1}}));
  } else if (target_ != nullptr) {
    plan_.substitute(target_);
  }
  if (target_ != nullptr && target_->path->use == PathUse::LastResort && !std::exchange(peer.onLastResort, true)) {
    services_.warn("R2CC: no other NIC to peer " + peer.describe() + " is left (" + cause_ +
                   "): going on over sockets on " + nicName(target_->path) + " (R2CC_LAST_RESORT_IFNAME)");
  }
  target_ = nullptr;
  avoid_ = nullptr;
  if (hasOutstanding()) peer.settledNs = runNs() + kDataFirstNs;
  nextMaintain_ = 0;
  lastMove_ = runNs();  // what stood still did so on the lane that is gone
  seenAcked_ = std::max(acked_.load(std::memory_order_relaxed), safeBelow());  // and so did what moved
  recorder_.replay(epoch_, message.delivered, static_cast<size_t>(replayed));
  setState(ConnectionState::Active, cause_, replayed);
  countFailover();
  everActive_ = true;
  endHold();
  lateLanes_ = 0;
  pump(holdFrom_);
  peer.resends |= drives_;  // when the others were answered that wait as well
  return nullptr;
}

void SendConnection::onSuspect(const Suspect& message) {
  if (message.lane == kNoLane) return;
  constexpr const char* kCause = "the receiver reports a transport error";
  const LanePtr lane = findLane(message.lane);  // a lane's number is never used again
  const bool left = lane == nullptr || !inUse(lane);
  if (!left && noLeaveOn(*lane)) return verdicts_++, standsStill(lane, runNs());
  if (lane != nullptr) lane->path->doubt(runNs());
  if (lane != nullptr) loseLane(lane, kCause);
  // Our plan has left it, the receiver's has not: there it ends by a count alone, which also shows what of it is lost
  // that NCCL was told is done. Repeated until then, so that one that came before the last count says nothing.
  if (left && message.epoch == epoch_ && state() == ConnectionState::Active) failover({}, kCause);
}

void SendConnection::onPathDown(const Path* path, const std::string& cause) {
  const std::vector<LanePtr> lanes = lanes_;
  std::vector<LanePtr> used;
  hold_.forget(path);
  // Idle lanes first: none of them may be chosen as the target of the failover that follows.
  for (const LanePtr& lane : lanes) {
    if (lane->path != path) continue;
    if (inUse(lane)) {
      used.push_back(lane);
    } else {
      loseLane(lane, cause);
    }
  }
  if (!used.empty()) failover(used, cause);
}

// ---- switch -----------------------------------------------------------------------------------------------------

Switch SendConnection::proposal() const {
  Switch out{id, proposedEpoch_, holdFrom_, {}};
  if (!proposed_) return out;
  out.parts = proposed_->cut.parts, out.unit = proposed_->cut.unit;
  for (const PlanLane& l : proposed_->lanes()) out.lanes.push_back({l.lane->id, l.weight});
  return out;
}

/// By the message before; at least all parts of one.
uint64_t SendConnection::ahead() const {
  const Slicing& cut = plan_.newest().cut;
  const size_t size = posted_ == 0 ? 0 : std::max<size_t>(requests_[posted_ - 1].size, cut.unit);
  return std::clamp<uint64_t>(kSwitchAheadBytes / std::max<size_t>(size, 1), cut.parts, kSwitchAhead);
}

void SendConnection::startSwitch(std::vector<PlanLane> lanes, const Slicing& cut) {
  const Owned owned(owner_, Owned::Wait::Yes);
  switchSince_ = runNs();
  proposedEpoch_ = ++epoch_;
  holdFrom_ = posted_ + (idle(switchSince_) ? 0 : ahead());
  proposed_.emplace(holdFrom_, std::move(lanes), cut);
  nextRepeat_ = runNs() + kFirstRepeatNs;
  repeatAfter_ = kFirstRepeatNs;
  recorder_.proposeSwitch(epoch_, proposed_->lanes()[0].lane->id, holdFrom_);
  peer.tell(proposal());
}

void SendConnection::onSwitched(const Switched& message) {
  if (!proposed_ || message.epoch != epoch_ || state() != ConnectionState::Active) return;
  if (message.boundary < holdFrom_) return fail("the peer lowered a switch boundary");
  const Owned owned(owner_, Owned::Wait::Yes);
  recorder_.switched(epoch_, message.boundary);
  // Receives were posted ahead: asking again before they are filled would only add a step.
  if (message.boundary > holdFrom_) leaveFrom_ = std::max(leaveFrom_, message.boundary);
  switchPause_ = 0;
  if (settleSwitch(message.boundary)) setState(ConnectionState::Active, atHome() ? "failback" : "balance");
  pump(holdFrom_);
}

/// The receiver took the step from `boundary` on, or (UINT64_MAX) never did and never will. Owner held.
/// True when other paths carry now, or other parts.
bool SendConnection::settleSwitch(uint64_t boundary) {
  bool another = false;
  if (boundary != UINT64_MAX && proposed_) {
    peer.onLastResort &= proposed_->lanes()[0].lane->path->use == PathUse::LastResort;
    another = !sameShares(current(), sharesOf(*proposed_));
    plan_.add(PlanStep(boundary, proposed_->lanes(), proposed_->cut));
    const bool returns = another && atHome();
    failbacks += returns ? 1 : 0;
    if (returns && services_.tally != nullptr) services_.tally->failback();
  }
  proposed_.reset();
  holdFrom_ = UINT64_MAX;
  return another;
}

// ---- the clock --------------------------------------------------------------------------------------------------

void SendConnection::tick(int64_t now) {
  failIfFenceHangs(now);
  if (over()) return;
  if (attention()) {
    attention_ = false;
    const std::vector<LanePtr> lanes = lanes_;
    for (const LanePtr& lane : lanes) {
      if (!lane->error || findLane(lane->id) == nullptr) continue;
      lane->path->doubt(now);
      loseLane(lane, "transport error");
    }
  }
  if (proposed_ && state() == ConnectionState::Active && now - switchSince_ > kSwitchLimitNs) {
    // Messages waited for it: somewhere it does not get through, and it must not be all that happens from now on.
    switchPause_ = std::clamp(2 * switchPause_, kSwitchPauseNs, kMostSwitchPauseNs);
    nextSwitch_ = now + switchPause_;
    failover({}, "the receiver did not agree to the switch");
  }
  driveReplays();
  judgeLanes(now);
  watchLeave(now);
  if (now >= nextRepeat_) repeat(now);
  if (welcomed_) maintain(now);
  watchHold(now);
}

/// Requests are repeated until answered, on every path: the best two may be black holes. Whether a path lets anything
/// through is asked along with it.
void SendConnection::repeat(int64_t now) {
  repeatAfter_ = std::min(std::max(repeatAfter_, kFirstRepeatNs) * 2, everActive_ ? kMaxRepeatNs : kMaxConnectRepeatNs);
  nextRepeat_ = now + repeatAfter_;
  const bool waits = state() == ConnectionState::Exchanging || state() == ConnectionState::Frozen;
  const bool asks = !welcomed_ || opening(nullptr) || proposed_ || waits;
  for (const auto& path : peer.paths()) {
    if (!asks || !path->linked || !peer.counts(*path) || now - path->lastPing < kRoundNs) continue;
    if (peer.known) peer.ping(*path, kNoRound, now);
    if (path->askedNs == 0) path->askedNs = now;
  }
  if (!welcomed_) return peer.tellEverywhere(Hello{id, listen_, homeDev_, addressesOf(*services_.local)});
  for (const LanePtr& lane : lanes_) {
    if (lane->remoteUp) continue;
    peer.tellEverywhere(OpenLane{id, lane->id, lane->path->local, peer.remote()[lane->path->remote].dev});
  }
  if (state() == ConnectionState::Exchanging && !fencing()) peer.tellEverywhere(freeze());
  if (proposed_ && state() == ConnectionState::Active) peer.tellEverywhere(proposal());
}

void SendConnection::maintain(int64_t now) {
  const int64_t limit = laneLimitNs() << std::min(lateLanes_, kMaxLateLanes);
  const auto late = [&](const LanePtr& lane) {
    return !lane->usable() && lane->users == 0 && now - lane->createdNs > limit;
  };
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), late);
  if (lane != lanes_.end()) {
    lateLanes_++;
    const LanePtr tooLate = *lane;  // NOLINT(performance-unnecessary-copy-initialization): it leaves the list
    // Asked for and answered, and still not there: data does not pass.
    const bool refused = tooLate->state == LaneState::Connecting && peerAnswers(now);
    if (refused && everActive_ && tooLate->inner.ops->sample != nullptr) {
      tooLate->path->doubtData(now, /*provable=*/true);
      peer.plansVersion++;
    }
    return loseLane(tooLate, "the lane could not be made in time");
  }
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
  if (now < peer.settledNs) return;
  if (now < nextMaintain_ && plan_.size() == 1 && wantedVersion_ == peer.plansVersion) return;
  nextMaintain_ = now + kMaintainNs;
  uint64_t posted = 0;
  if (plan_.size() > 1) {  // only the engine changes a sender's plan
    const Owned owned(owner_, Owned::Wait::Yes);
    plan_.trim(std::max(acked_.load(std::memory_order_relaxed), safeBelow()));
    posted = posted_;
  }
  if (approachWanted(now)) return;
  if (plan_.size() > 1) {
    if (!idle(now)) return;
    // Nothing will move it past its old steps, whose lanes cannot stand by for as long: the newest begins right here.
    if (now >= nextSwitch_ && posted >= leaveFrom_) {
      leaveFrom_ = posted + 1;
      return startSwitch(plan_.newest().lanes(), plan_.newest().cut);
    }
  }
  keepStandby(now);
  prune();
}

void SendConnection::onBye(const Bye& message) {
  if (over()) return;
  bool missing = false;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    onAck(std::min(message.delivered, posted_), /*repaired=*/true);
    missing = acked_.load(std::memory_order_relaxed) < posted_;
    if (!missing) {
      for (Request& r : requests_)
        r.on(RequestEvent::Finish);  // the receiver has them all, whatever the transport still says
      // NCCL may now take the memory away, whatever the transport is still doing with it.
      endAs(ConnectionState::Closed, "by the receiver");
    }
  }
  if (!missing) return;
  failAsPeer(message.reason, "the peer closed it before it had everything");
}

/// Nothing follows on other lanes any more, so nothing can come twice. A lane that is in the middle of a message ends
/// as ever: it was one that went out again.
void SendConnection::leaveToKernel() {
  if (!lingers_) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  for (const LanePtr& lane : lanes_) {
    lane->inOrder =
        lane->inner.ops->closesInOrder && lane->state == LaneState::Up && !lane->error && lane->posted.empty();
  }
}

}  // namespace r2cc
