// The data path of the sending end; handshakes are in send_control.cc.
#include "send_connection.h"

#include <algorithm>

namespace r2cc {
namespace {
constexpr int64_t kStallNs = msToNs(8);
constexpr int64_t kLaneStallNs = msToNs(50);  // a lane that takes longer to make may be on a black hole
}  // namespace

SendConnection::SendConnection(const Services& services, Peer& peer, uint64_t id, void* ctx, uint64_t listen,
                               uint8_t homeDev, uint8_t remoteHomeDev, const std::vector<NicAddress>& ourNics)
    : Connection(services, peer, id, ctx, /*sends=*/true),
      listen_(listen),
      homeDev_(homeDev),
      remoteHomeDev_(remoteHomeDev),
      ourNics_(ourNics),
      lastMove_(nowNs()) {}

SendConnection::~SendConnection() = default;

ncclResult_t SendConnection::isend(void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
  *request = nullptr;
  if (over()) return ncclRemoteError;
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return ncclSuccess;
  *request = claim(data, size, tag, mr, profiler);
  pump();
  return ncclSuccess;
}

ncclResult_t SendConnection::test(Request& request, int* done, int* size) {
  *done = 0;
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return ncclSuccess;
  // A send is done when its inner request is over (NCCL may then reuse the buffer) and the receiver has the message.
  const auto complete = [&] {
    const bool arrived = !services_.inner.ops->needsAck || request.number < acked_.load(std::memory_order_acquire);
    return request.finished && arrived;
  };
  if (!complete() && over()) return ncclRemoteError;
  if (!complete()) progress();
  if (!complete()) return ncclSuccess;
  *done = 1;
  if (size != nullptr) *size = static_cast<int>(request.size);
  request.used = false;
  released_.store(request.number + 1, std::memory_order_release);
  outstanding_.fetch_sub(1, std::memory_order_relaxed);
  return ncclSuccess;
}

// Posts what NCCL has given us to the plan's lanes, in ascending order.
void SendConnection::pump() {
  if (state() != ConnectionState::Active) return;
  for (; nextToPost_ < posted_ && nextToPost_ < holdFrom_; nextToPost_++) {
    Request& r = slot(nextToPost_);
    if (r.finished) continue;  // the receiver has it from before a failover
    Lane& lane = *laneFor(nextToPost_);
    if (lane.error) return;
    r.inner = nullptr;
    const ncclResult_t result =
        services_.inner.net->isend(lane.comm, r.data, r.size, r.tag, handleOn(lane, r.mr), r.profiler, &r.inner);
    if (result != ncclSuccess) return laneError(lane);
    if (r.inner == nullptr) return;
    if (!lane.posted.push(nextToPost_)) return laneError(lane);
  }
}

void SendConnection::progress() {
  for (const PlanStep& step : plan_) {
    Lane& lane = *step.lane;
    while (!lane.posted.empty() && !lane.error) {
      Request& r = slot(lane.posted.front());
      int done = 0;
      if (services_.inner.net->test(r.inner, &done, nullptr) != ncclSuccess) {
        laneError(lane);
        break;
      }
      if (!done) break;
      lane.posted.pop();
      r.inner = nullptr;
      r.finished = true;
    }
  }
  pump();
}

// Invariant 4: the receiver is the truth. All it has is finished, all else goes out again, in order.
void SendConnection::applyFenced(const Fenced& message) {
  onAck(message.delivered);
  for (uint64_t number = released_; number < posted_; number++) {
    Request& r = slot(number);
    const bool inMask = number >= message.delivered && number - message.delivered < 32 &&
                        (message.deliveredMask >> (number - message.delivered) & 1);
    r.finished = number < message.delivered || inMask;
    r.inner = nullptr;
  }
  nextToPost_ = std::max(released_.load(), message.delivered);
}

void SendConnection::onAck(uint64_t delivered) {
  // Only the engine stores acked_, so a plain maximum is enough. More than was ever sent is a broken peer.
  if (delivered > acked_.load(std::memory_order_relaxed)) acked_.store(delivered, std::memory_order_release);
}

/// The path of a lane that is needed and does not come up, or null.
const Path* SendConnection::stalledLane(int64_t now) const {
  for (const LanePtr& lane : lanes_) {
    const bool needed = state() == ConnectionState::Connecting || state() == ConnectionState::Frozen;
    if (needed && !lane->usable() && now - lane->createdNs > kLaneStallNs) return lane->path;
  }
  return nullptr;
}

const Path* SendConnection::stalledPath(int64_t now) {
  if (const Path* path = stalledLane(now)) return path;
  const uint64_t acked = acked_.load(std::memory_order_acquire);
  if (acked != seenAcked_ || !hasOutstanding() || state() != ConnectionState::Active) {
    seenAcked_ = acked;
    lastMove_ = now;
    return nullptr;
  }
  if (now - lastMove_ < kStallNs) return nullptr;
  const Owned owned(owner_, Owned::Wait::Yes);
  if (acked >= nextToPost_) return lastMove_ = now, nullptr;  // all arrived; NCCL has not asked yet
  // The oldest message decides which lane is stuck.
  const Lane* lane = laneFor(acked);
  return lane == nullptr ? nullptr : lane->path;
}

}  // namespace r2cc
