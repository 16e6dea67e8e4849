// GPU memory at the receiving end: a message is flushed on the lane that wrote it before it counts.
#include <algorithm>

#include "recv_connection.h"

namespace r2cc {
namespace {
constexpr int64_t kFlushLimitNs = msToNs(2);
}  // namespace

/// A drained comm flushes no more. A NIC that lost its link can still be asked to, for the moment this may take.
void RecvConnection::flushBeforeDrain(Lane& lane) {
  const int64_t until = nowNs() + kFlushLimitNs;
  for (const uint64_t number : lane.posted.all()) {
    Request& r = slot(number);
    if (r.number != number || r.finished || !needsFlush(r)) continue;
    Outcome outcome = take(lane, r);
    while (outcome == Outcome::Waits && r.flush != nullptr && nowNs() < until) outcome = take(lane, r);
    if (outcome == Outcome::Complete) finished(r);
    if (outcome != Outcome::Complete && !lane.inner.ops->testsInAnyOrder) return;
  }
}

bool RecvConnection::needsFlush(const Request& r) const {
  const auto* mr = static_cast<const Mr*>(r.mr);
  return flushes_ && mr != nullptr && mr->type == NCCL_PTR_CUDA && r.size > 0;
}

/// On the lane that wrote, before the message counts: were that NIC to die in between, the sender would send again.
RecvConnection::Outcome RecvConnection::flush(Lane& lane, Request& r) {
  const ncclNet_t& net = *lane.inner.net;
  if (r.flush == nullptr) {
    void* handle = handleOn(lane, r.mr);
    int size = static_cast<int>(r.size);
    if (net.iflush(lane.comm, 1, &r.data, &size, &handle, &r.flush) != ncclSuccess) return Outcome::Broken;
    if (r.flush == nullptr) return Outcome::Complete;
  }
  int done = 0;
  if (net.test(r.flush, &done, nullptr) != ncclSuccess) return Outcome::Broken;
  if (!done) return Outcome::Waits;
  r.flush = nullptr;
  r.flushed = true;
  return Outcome::Complete;
}

/// NCCL asks for a flush where its GPU needs one. From the first time on, messages are flushed before they count, and
/// there is nothing left to do here; until then it goes to the lane that wrote, if that still lives.
ncclResult_t RecvConnection::iflush(int n, void** data, int* sizes, void** mrs, void** request) {
  *request = nullptr;
  const Owned owned(owner_, Owned::Wait::Yes);
  if (over()) return ncclRemoteError;
  if (n != 1) return ncclInvalidUsage;
  flushes_ = true;
  for (uint64_t back = 1; back <= std::min<uint64_t>(posted_, NCCL_NET_MAX_REQUESTS); back++) {
    const Request& wrote = slot(posted_ - back);
    if (wrote.data != data[0] || !wrote.finished) continue;
    if (wrote.flushed) return ncclSuccess;
    const LanePtr lane = findLane(wrote.lane);
    const auto free =
        std::find_if(std::begin(flushRequests_), std::end(flushRequests_), [](const Request& r) { return !r.used; });
    if (lane == nullptr || lane->error || free == std::end(flushRequests_)) break;
    void* handle = handleOn(*lane, mrs[0]);
    if (lane->inner.net->iflush(lane->comm, 1, data, sizes, &handle, &free->flush) != ncclSuccess) break;
    if (free->flush == nullptr) return ncclSuccess;
    free->connection = this;
    free->used = free->isFlush = true;
    free->lane = lane->id;
    *request = &*free;
    return ncclSuccess;
  }
  return flushLost();
}

ncclResult_t RecvConnection::testFlush(Request& request, int* done) {
  const LanePtr lane = findLane(request.lane);
  const bool ok = lane != nullptr && lane->inner.net->test(request.flush, done, nullptr) == ncclSuccess;
  if (!ok || *done) request.used = false;
  return ok ? ncclSuccess : flushLost();
}

ncclResult_t RecvConnection::flushLost() const {
  services_.warn("R2CC: the NIC that wrote into GPU memory is gone before its data was flushed (from peer " +
                 peer.describe() + ", home " + nicName(home_) + "): the data cannot be trusted");
  return ncclRemoteError;
}

}  // namespace r2cc
