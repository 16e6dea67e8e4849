// The receiving end of a failover: what the sender no longer has is drained, fenced and only then counted (invariant
// 3), which may take a while (connection_fence.cc); then buffers are posted again.
#include <algorithm>

#include "data/recv_connection.h"

namespace r2cc {

Fenced RecvConnection::count(uint8_t laneUsable) const {
  Fenced out;
  out.connection = id;
  out.epoch = epoch_;
  out.laneUsable = laneUsable;
  out.delivered = delivered();
  out.switchedEpoch = lastSwitched_.epoch;
  out.switchedBoundary = lastSwitched_.boundary;
  for (uint64_t i = 0; i < Fenced::kMasked; i++) {
    const uint64_t number = out.delivered + i;
    const Request& r = requests_[number];
    const bool here = r.number == number && number < posted_ && r.finished();
    if (here || rescued_.count(number) != 0) out.deliveredMask |= uint32_t{1} << i;
  }
  return out;
}

/// The sender's user may have reused their buffers, and the lane that brought them is gone: nobody has them.
bool RecvConnection::lostCompleted(uint64_t completed) const {
  return std::any_of(std::begin(requests_), std::end(requests_), [&](const Request& r) {
    return r.held() && !r.finished() && r.number < completed && (r.lane == kNoLane || findLane(r.lane) == nullptr);
  });
}

LanePtr RecvConnection::usableLane(uint32_t laneId) const {
  const LanePtr lane = findLane(laneId);
  return lane != nullptr && lane->usable() && !lane->error ? lane : nullptr;
}

/// Drains and fences what the sender no longer has. The plan goes on naming these lanes until they are replaced.
void RecvConnection::forget(const Freeze& message) {
  for (const LanePtr& lane : plan_.lanes()) {
    while (progressLane(*lane)) {
    }
  }
  plan_.trim(delivered());
  const std::vector<LanePtr> lanes = lanes_;
  for (const LanePtr& lane : lanes) {
    const bool known = std::find(message.lanes.begin(), message.lanes.end(), lane->id) != message.lanes.end();
    if (known || lane->id > message.newestLane) continue;
    if (lane->state == LaneState::Up && lane->inner.ops->fenceMayWait) {
      drainApart(lane);
      continue;
    }
    drainLane(*lane);
    rescue(*lane);
    dropLane(lane);
    early_.reset();
  }
}

// Invariant 3: drain, fence, only then count; buffers are posted again after the count.
void RecvConnection::onFreeze(const Freeze& message) {
  if (message.epoch < epoch_ || over() || farewell_) return;
  if (message.epoch == epoch_) {
    if (lastFenced_.epoch == epoch_) peer.tell(lastFenced_);
    return;
  }
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    forget(message);
    epoch_ = message.epoch;
    if (fencing()) setState(ConnectionState::Frozen, "sender");
  }
  freeze_ = message;
  if (!fencing()) answerFreeze();
}

void RecvConnection::onAllFenced() {
  if (over()) return;
  if (farewell_) return end(*farewell_);
  if (freeze_) answerFreeze();
}

void RecvConnection::answerFreeze() {
  if (!freeze_) return;
  const Freeze message = *freeze_;
  freeze_.reset();
  bool missing = false;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    const bool first = plan_.empty();
    attention_ = std::any_of(lanes_.begin(), lanes_.end(), [](const LanePtr& l) { return l->error.load(); });
    const LanePtr lane = usableLane(message.lane);
    const bool usable = lane != nullptr || (message.lane == kNoLane && !plan_.broken() && !first);
    lastFenced_ = count(usable);
    recorder_.freeze(epoch_, message.lane, message.completed);
    recorder_.fenced(epoch_, lastFenced_.delivered, usable);
    missing = lostCompleted(message.completed);
    if (usable && first) plan_.add(PlanStep(0, {{lane, 1}}));
    if (usable && lane != nullptr) plan_.substitute(lane);
    for (Request& r : requests_) {
      if (r.finished() || r.lane == kNoLane || findLane(r.lane) != nullptr) continue;
      r.lose();
    }
    nextToPost_ = delivered();
    setState(usable ? ConnectionState::Active : ConnectionState::Frozen, first ? "connected" : "sender");
    pump(UINT64_MAX);
  }
  if (missing)
    return fail(flushes_ ? "a NIC is gone before what it wrote into GPU memory was flushed"
                         : "messages the sender was told were delivered are missing here (invariant 3)");
  peer.tell(lastFenced_);
}

}  // namespace r2cc
