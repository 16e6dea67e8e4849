// The receiving end of a failover: what the sender no longer has is drained, fenced and only then counted (invariant
// 3), which may take a while (connection.cc); then buffers are posted again.
#include <algorithm>
#include <cstring>

#include "data/recv_connection.h"
#include "lanes/unread.h"

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
    plan_.trim(delivered());  // what was drained may have ended a step that the sender no longer has
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

// ---- what a lost lane holds
// ------------------------------------------------------------------------------------------

// What lies in the socket of a lane that is given up: the receiver's kernel has confirmed it, so that the sender may
// have told NCCL that it is done, and then nobody else has it (SendConnection::confirmed).

namespace {
constexpr int kNoTag = -1;
constexpr int kTries = 50;  // a transport may take no request just now
}  // namespace

/// All of it is read into memory of our own, in the order in which it was sent, and handed over when NCCL asks. None is
/// larger than largest_: the sender of such a one waits for us, and says nothing of those behind it.
void RecvConnection::rescue(Lane& lane) {
  if (!lane.tells || lane.state != LaneState::Up) return;
  const std::vector<uint64_t> asked = lane.posted.all();
  const auto open = [&](uint64_t number) {
    return requests_[number].number == number && !requests_[number].finished();
  };
  if (std::any_of(asked.begin(), asked.end(), open)) return;  // that was not here whole, so nothing behind it is
  const uint64_t end = delivered() + Fenced::kMasked;
  for (uint64_t number = delivered(); number < end; number++) {
    const bool wanted = number < posted_;  // NCCL has asked for it, but the lane took no more
    if (plan_.laneFor(number) != &lane || rescued_.count(number) != 0 || (wanted && requests_[number].finished()))
      continue;
    const std::optional<size_t> size = readEarly(lane);
    if (!size) return;
    rescued_[number] = {std::move(early_), *size};
    if (wanted) (void)takeRescued(requests_[number]);
  }
}

/// The next message of the lane, into early_; nothing if it is not here whole.
std::optional<size_t> RecvConnection::readEarly(Lane& lane) {
  early_.reset(new uint8_t[largest_]);  // not filled: mostly nothing comes
  const ncclNet_t& net = *lane.inner.net;
  void* data = early_.get();
  size_t room = largest_;
  int tag = kNoTag, done = 0, size = 0;
  void *mr = nullptr, *profiler = nullptr, *inner = nullptr;
  for (int n = 0; n < kTries && inner == nullptr; n++) {
    if (net.irecv(lane.comm, 1, &data, &room, &tag, &mr, &profiler, &inner) != ncclSuccess) return std::nullopt;
  }
  if (inner == nullptr) return std::nullopt;
  whileUnread(lane, [&] { return net.test(inner, &done, &size) == ncclSuccess && done == 0; });
  return done == 0 ? std::nullopt : std::optional<size_t>(size);
}

/// False: it is larger than what NCCL asks for.
bool RecvConnection::takeRescued(Request& r) {
  const auto found = rescued_.find(r.number);
  if (found == rescued_.end()) return true;
  const Rescued message = std::move(found->second);
  rescued_.erase(found);
  if (message.size > r.size) {
    services_.warn("R2CC: a message of " + std::to_string(message.size) + " bytes from peer " + peer.describe() +
                   " came where NCCL asked for " + std::to_string(r.size) + " at most: do all ranks call alike?");
    return false;
  }
  if (message.size > 0) memcpy(r.data, message.bytes.get(), message.size);
  r.size = message.size;
  finished(r);
  return true;
}

/// Who has an eye on it until it is acknowledged.
AckRule::Sender RecvConnection::senderOf(const Request& r) const {
  if (home_ == nullptr || !innerOf(home_).ops->plainMemory) return AckRule::Sender::Waits;
  if (r.size <= kKeepBytes) return AckRule::Sender::KeepsCopy;
  const LanePtr lane = r.size <= largest_ ? findLane(r.lane) : nullptr;
  return lane != nullptr && lane->tells ? AckRule::Sender::SeesOurKernel : AckRule::Sender::Waits;
}

}  // namespace r2cc
