#include "recv_connection.h"

#include <algorithm>

namespace r2cc {
namespace {
constexpr uint64_t kAckEvery = 4;  // half of NCCL's 8 slots: the sender never starves
constexpr int kPeerAcksDue = 8;    // one datagram acknowledges all connections of a peer
constexpr int64_t kAckAfterNs = msToNs(2);
constexpr size_t kLargeBytes = 65536;
constexpr int64_t kSuspectRepeatNs = msToNs(5);
constexpr int64_t kAcceptLimitNs = msToNs(15000);  // a lane the sender no longer wants
}  // namespace

RecvConnection::RecvConnection(const Services& services, Peer& peer, uint64_t id, void* ctx, const Path* home)
    : Connection(services, peer, id, ctx, /*sends=*/false) {
  home_ = home;
}

RecvConnection::~RecvConnection() = default;

ncclResult_t RecvConnection::irecv(void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
  *request = nullptr;
  if (over()) return ncclRemoteError;
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return ncclSuccess;
  *request = claim(data, size, tag, mr, profiler);
  pump();
  return ncclSuccess;
}

ncclResult_t RecvConnection::test(Request& request, int* done, int* size) {
  *done = 0;
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return ncclSuccess;
  if (!request.finished && over()) return ncclRemoteError;
  if (!request.finished) progress();
  if (!request.finished) return ackIfDue(), ncclSuccess;
  *done = 1;
  if (size != nullptr) *size = static_cast<int>(request.size);
  request.used = false;
  ackIfDue();
  return ncclSuccess;
}

ncclResult_t RecvConnection::iflush(int n, void** data, int* sizes, void** mrs, void** request) {
  *request = nullptr;
  const Owned owned(owner_, Owned::Wait::Yes);
  if (plan_.empty()) return ncclRemoteError;
  // Sockets have nothing to flush and say so; a net that has passes the lane that wrote.
  const Lane& lane = *plan_.back().lane;
  std::vector<void*> handles(static_cast<size_t>(n));
  for (int i = 0; i < n; i++) handles[static_cast<size_t>(i)] = handleOn(lane, mrs[i]);
  return services_.inner.net->iflush(lane.comm, n, data, sizes, handles.data(), request);
}

// Posts what NCCL has given us to the plan's lanes, in ascending order.
void RecvConnection::pump() {
  if (state() != ConnectionState::Active) return;
  for (; nextToPost_ < posted_; nextToPost_++) {
    Request& r = slot(nextToPost_);
    if (r.finished) continue;  // complete before a failover: nothing more will come for it
    Lane& lane = *laneFor(nextToPost_);
    if (lane.error) return;
    void* handle = handleOn(lane, r.mr);
    r.inner = nullptr;
    const ncclResult_t result =
        services_.inner.net->irecv(lane.comm, 1, &r.data, &r.size, &r.tag, &handle, &r.profiler, &r.inner);
    if (result != ncclSuccess) return laneError(lane);
    if (r.inner == nullptr) return;
    if (!lane.posted.push(nextToPost_)) return laneError(lane);
  }
}

void RecvConnection::progress() {
  bool moved = false;
  for (const PlanStep& step : plan_) moved |= progressLane(*step.lane);
  if (moved) trimPlan(delivered());
  pump();
}

bool RecvConnection::progressLane(Lane& lane, Until until) {
  bool moved = false;
  while (!lane.posted.empty() && (until == Until::Nothing || !lane.error)) {
    Request& r = slot(lane.posted.front());
    int done = 0;
    int size = 0;
    if (services_.inner.net->test(r.inner, &done, &size) != ncclSuccess) {
      laneError(lane);
      return moved;
    }
    if (!done) return moved;
    lane.posted.pop();
    r.size = static_cast<size_t>(size);
    finished(r);
    moved = true;
  }
  return moved;
}

void RecvConnection::finished(Request& r) {
  r.finished = true;
  r.inner = nullptr;
  large_ = r.size >= kLargeBytes;
  uint64_t next = delivered();
  // Slots of messages NCCL has not yet asked about keep their number, so the prefix is read off the ring.
  while (next < posted_ && slot(next).number == next && slot(next).finished) next++;
  delivered_.store(next, std::memory_order_release);
  outstanding_.fetch_sub(1, std::memory_order_relaxed);
  if (peer.acksDue.fetch_add(1, std::memory_order_acq_rel) == 0) peer.acksSinceNs = nowNs();
}

void RecvConnection::ackIfDue() {
  const int due = peer.acksDue.load(std::memory_order_relaxed);
  if (due == 0 || plan_.empty() || !services_.inner.ops->needsAck) return;
  const uint64_t unacked = delivered() - ackedToPeer.load(std::memory_order_relaxed);
  const bool drained = large_ && unacked > 0 && outstanding_.load(std::memory_order_relaxed) == 0;
  if (unacked < kAckEvery && due < kPeerAcksDue && !drained && nowNs() - peer.acksSinceNs < kAckAfterNs) return;
  peer.flushAcks(*plan_.back().lane->path, drained);
}

// ---- the engine's side ------------------------------------------------------------------------------------------

void RecvConnection::onOpenLane(const OpenLane& message) {
  LanePtr lane = findLane(message.lane);
  LaneHandle answer;
  answer.connection = id;
  answer.lane = message.lane;
  if (lane == nullptr && !over()) {
    Path* path = peer.route(message.remoteDev, message.localDev);
    if (path != nullptr) {
      lane =
          std::make_shared<Lane>(this, message.lane, /*sends=*/false, path, message.remoteDev, services_.inner, ctx_);
      lane->createdNs = nowNs();
      if (services_.inner.net->listen(ctx_, message.remoteDev, lane->handle.data(), &lane->listenComm) == ncclSuccess) {
        lanes_.push_back(lane);
        services_.connector->make(lane);
      } else {
        lane = nullptr;
      }
    }
  }
  answer.failed = lane == nullptr;
  if (lane != nullptr) answer.handle = lane->handle;
  if (lane != nullptr && lane->state == LaneState::Up) return peer.tell(LaneUp{id, lane->id});
  peer.tell(answer);
}

void RecvConnection::onLaneMade(const LanePtr& lane, bool ok) {
  if (lane->state != LaneState::Connecting) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  if (!ok) return dropLane(lane);
  lane->state = LaneState::Up;
  if (!registerOn(lane)) return dropLane(lane);
  peer.tell(LaneUp{id, lane->id});
}

void RecvConnection::onCloseLane(const CloseLane& message) {
  const LanePtr lane = findLane(message.lane);
  const Owned owned(owner_, Owned::Wait::Yes);
  if (lane != nullptr && !inPlan(lane)) dropLane(lane);  // a lane of the plan ends by Freeze alone
}

Fenced RecvConnection::count(uint8_t laneUsable) const {
  Fenced out;
  out.connection = id;
  out.epoch = epoch_;
  out.laneUsable = laneUsable;
  out.delivered = delivered();
  for (uint64_t i = 0; i < NCCL_NET_MAX_REQUESTS; i++) {
    const Request& r = requests_[(out.delivered + i) % NCCL_NET_MAX_REQUESTS];
    if (r.number == out.delivered + i && r.number < posted_ && r.finished) out.deliveredMask |= uint32_t{1} << i;
  }
  return out;
}

// Invariant 3: drain, fence, only then count; buffers are posted again after the count.
void RecvConnection::onFreeze(const Freeze& message) {
  if (message.epoch < epoch_ || over()) return;
  if (message.epoch == epoch_) {
    if (lastFenced_.epoch == epoch_) peer.tell(lastFenced_);
    return;
  }
  const bool first = epoch_ == 0;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    for (const PlanStep& step : plan_) progressLane(*step.lane, Until::Nothing);
    dropPlan();
    const std::vector<LanePtr> lanes = lanes_;
    for (const LanePtr& lane : lanes) {
      if (lane->id < message.oldestLane) dropLane(lane);  // the sender gave it up, and the word of it was lost
    }
    attention_ = false;
    epoch_ = message.epoch;
    nextToPost_ = delivered();
    const LanePtr lane = findLane(message.lane);
    const bool usable = lane != nullptr && lane->usable() && !lane->error;
    lastFenced_ = count(usable);
    if (usable) plan_.push_back({0, lane});
    setState(usable ? ConnectionState::Active : ConnectionState::Frozen, first ? "connected" : "sender");
    pump();
  }
  if (message.completed > lastFenced_.delivered) {
    return fail("messages the sender was told were delivered are missing here (invariant 3)");
  }
  peer.tell(lastFenced_);
}

void RecvConnection::onSwitch(const Switch& message) {
  if (message.epoch == epoch_ && lastSwitched_.epoch == epoch_) return peer.tell(lastSwitched_);
  if (message.epoch <= epoch_ || state() != ConnectionState::Active) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  const LanePtr lane = findLane(message.lane);
  if (lane == nullptr || !lane->usable() || lane->error || inPlan(lane)) return;  // the sender gives it up in time
  epoch_ = message.epoch;
  lastSwitched_ = Switched{id, epoch_, std::max(message.boundary, nextToPost_)};
  plan_.push_back({lastSwitched_.boundary, lane});
  setState(ConnectionState::Active, "switch");
  peer.tell(lastSwitched_);
}

void RecvConnection::onBye() {
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    // What came before the farewell counts.
    for (const PlanStep& step : plan_) progressLane(*step.lane, Until::Nothing);
  }
  if (hasOutstanding()) return fail("peer " + peer.describe() + " closed the connection while messages were expected");
  setState(ConnectionState::Closed, "by the sender");
}

void RecvConnection::tick(int64_t now) {
  if (over()) return;
  if (attention() && now - lastSuspect_ >= kSuspectRepeatNs) {
    lastSuspect_ = now;
    const Owned owned(owner_, Owned::Wait::Yes);  // NCCL's thread shortens the plan
    for (const PlanStep& step : plan_) {
      if (step.lane->error) peer.tell(Suspect{id, epoch_, step.lane->id});
    }
  }
  const auto unwanted = [&](const LanePtr& lane) {
    return lane->state == LaneState::Connecting && now - lane->createdNs > kAcceptLimitNs;
  };
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), unwanted);
  if (lane == lanes_.end()) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  dropLane(*lane);
}

}  // namespace r2cc
