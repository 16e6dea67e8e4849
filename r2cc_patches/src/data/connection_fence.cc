// Giving lanes up. A queue pair takes up to 200 ms until it lets go: such fences run on helpers, those of many lanes at
// once, and whoever must not go on before they are over asks fencing() (invariant 3: the sender reports a lane as lost
// only then, the receiver counts only then).
#include <algorithm>

#include "data/connection.h"

namespace r2cc {
namespace {
constexpr int64_t kFenceLimitNs = msToNs(10000);  // what needs longer than this hangs
}

/// Nothing is posted on it or tested any more. The state first: until the lane is up, its comm belongs to the
/// connector's thread.
void Connection::retire(const LanePtr& lane) {
  recorder_.laneDown(lane->id, lane->error ? "transport error" : !lane->path->up() ? "path down" : "given up");
  lanes_.erase(std::remove(lanes_.begin(), lanes_.end(), lane), lanes_.end());
  if (lane->state == LaneState::Up && lane->inner.ops->fenceMayWait) {
    lane->state = LaneState::Closed;
    if (fencing_++ == 0) fencingSince_ = runNs();
    releasing_++;
  }
}

void Connection::dropLane(const LanePtr& given) {
  const LanePtr lane = given;  // NOLINT(performance-unnecessary-copy-initialization): it may be the list's own
  const bool up = lane->state == LaneState::Up;
  const bool apart = up && lane->inner.ops->fenceMayWait;
  retire(lane);
  const std::vector<void*> handles = takeHandles(*lane);
  if (apart) return fenceApart(services_, weak_from_this(), lane, handles);
  if (up) lane->inner.ops->fence(lane->comm);
  if (!handles.empty() && lane->inner.ops->memoryMayWait) {
    lane->state = LaneState::Closed;
    releasing_++;
    return giveBack(services_, weak_from_this(), lane, handles, /*close=*/true);
  }
  for (void* handle : handles) (void)lane->inner.net->deregMr(lane->comm, handle);
  services_.connector->close(lane);
}

void Connection::dropAll() {
  while (!lanes_.empty()) dropLane(lanes_.back());
  plan_.clear();
}

void Connection::fenceApart(const Services& services, const std::weak_ptr<Connection>& whose, const LanePtr& lane,
                            const std::vector<void*>& handles) {
  services.apart([lane] { lane->inner.ops->fence(lane->comm); },
                 [&services, whose, lane, handles] {
                   if (const auto connection = whose.lock()) connection->fenced();
                   giveBack(services, whose, lane, handles, /*close=*/true);
                 });
}

void Connection::fenced() {
  if (--fencing_ == 0 && !shut_) onAllFenced();
}

void Connection::failIfFenceHangs(int64_t now) {
  if (!fencing() || over() || now - fencingSince_ < std::max(services_.holdNs, kFenceLimitNs)) return;
  fail("the transport does not let go of a lane");
}

/// An error frees NCCL's buffers: not while a lane may still write to them, unless it hangs.
ncclResult_t Connection::overNow() const {
  return fencing() && runNs() - fencingSince_ < kFenceLimitNs ? ncclSuccess : ncclRemoteError;
}

}  // namespace r2cc
