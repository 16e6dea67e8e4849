// GPU memory at the receiving end: a message is flushed on the lane that wrote it before it counts.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "data/recv_connection.h"

namespace r2cc {
namespace {
constexpr int64_t kFlushLimitNs = msToNs(2);
constexpr auto kFlushPoll = std::chrono::microseconds(20);
}  // namespace

/// A drained comm flushes no more. A NIC that lost its link can still be asked to, for the moment this may take.
void RecvConnection::flushBeforeDrain(Lane& lane) {
  const int64_t until = nowNs() + kFlushLimitNs;
  while (flushSome(lane) && nowNs() < until) {
  }
}

/// True while a flush is under way that may still end.
bool RecvConnection::flushSome(Lane& lane) {
  bool waits = false;
  for (const uint64_t number : lane.posted.all()) {
    Request& r = requests_[number];
    if (r.number != number || r.finished() || !needsFlush(r)) continue;
    const Outcome outcome = take(lane, r);
    if (outcome == Outcome::Complete) finished(r);
    waits |= outcome == Outcome::Waits && r.flush != nullptr;
    if (outcome != Outcome::Complete && !lane.inner.ops->testsInAnyOrder) break;
  }
  return waits;
}

void RecvConnection::drainApart(const LanePtr& lane) {
  retire(lane);
  flushThenDrain(lane, nowNs());
}

/// The connection may be gone before the lane is; the lane is fenced all the same. Owner held. Where the sender closed
/// nothing is sent again, and no flush is late that this NIC can still make: stock waits for it, too.
void RecvConnection::flushThenDrain(const LanePtr& lane, int64_t begun) {
  const auto whose = weak_from_this();
  const auto self = [whose] { return std::static_pointer_cast<RecvConnection>(whose.lock()); };
  const int64_t limit = farewell_ && peer.linkUpHere(lane->path->local) ? services_.holdNs : kFlushLimitNs;
  if (!over() && flushSome(*lane) && nowNs() - begun < limit) {  // looked at last by who comes late himself
    services_.apart([] { std::this_thread::sleep_for(kFlushPoll); },
                    [&services = services_, whose, self, lane, begun] {
                      const auto connection = self();
                      if (connection == nullptr) return fenceApart(services, whose, lane, {});
                      const Owned owned(connection->owner_, Owned::Wait::Yes);
                      connection->flushThenDrain(lane, begun);
                    });
    return;
  }
  const auto drain = [lane] {
    if (lane->inner.ops->drain != nullptr) lane->inner.ops->drain(lane->comm);
  };
  services_.apart(drain, [&services = services_, whose, self, lane] {
    const auto connection = self();
    fenceApart(services, whose, lane, connection == nullptr ? std::vector<void*>{} : connection->drained(*lane));
  });
}

std::vector<void*> RecvConnection::drained(Lane& lane) {
  const Owned owned(owner_, Owned::Wait::Yes);
  if (!over()) takeDrained(lane);
  return takeHandles(lane);
}

bool RecvConnection::needsFlush(const Request& r) const {
  const auto* mr = static_cast<const Mr*>(r.mr);
  // NCCL asks for one flush a message, and parts were written by several NICs: they do not wait to be asked, unless
  // NCCL is known to ask for none.
  return (flushes_ || (r.cut() && !unasked_)) && mr != nullptr && mr->type == NCCL_PTR_CUDA && r.size > 0;
}

/// On the lane that wrote, before the message counts: were that NIC to die in between, the sender would send again.
RecvConnection::Outcome RecvConnection::flush(Lane& lane, Request& r) {
  const ncclNet_t& net = *lane.inner.net;
  if (r.flush == nullptr) {
    void* handle = handleOn(lane, r.mr);
    int size = static_cast<int>(r.size);
    if (net.iflush(lane.comm, 1, &r.data, &size, &handle, &r.flush) != ncclSuccess) return Outcome::Broken;
  }
  int done = r.flush == nullptr ? 1 : 0;  // a transport may have nothing to flush
  if (r.flush != nullptr && net.test(r.flush, &done, nullptr) != ncclSuccess) return Outcome::Broken;
  if (!done) return Outcome::Waits;
  r.flush = nullptr;
  r.surety = Surety::Flush;
  return Outcome::Complete;
}

/// NCCL asks for a flush where its GPU needs one. From the first time on, messages are flushed before they count, and
/// there is nothing left to do here; until then it goes to the lanes that wrote, if these still live: NCCL may ask for
/// the first time when messages in parts are here, each of another NIC.
ncclResult_t RecvConnection::iflush(int n, void** data, int* sizes, void** mrs, void** request) {
  *request = nullptr;
  const Owned owned(owner_, Owned::Wait::Yes);
  if (state() == ConnectionState::Failed) return ncclRemoteError;  // closed by the sender, it has all it ever will
  if (n != 1) return ncclInvalidUsage;
  flushes_ = true;
  for (uint64_t back = 1; back <= std::min<uint64_t>(posted_, requests_.size()); back++) {
    const Request& wrote = requests_[posted_ - back];
    if (wrote.parts == 0 || wrote.data != data[0] || !wrote.finished()) continue;
    std::vector<OwnFlush::Written> left;
    for (int index = wrote.parts - 1; index >= 0; index--) {
      const Request& part = requests_.part(wrote, index);
      const size_t size = wrote.cut() ? part.size : static_cast<size_t>(sizes[0]);
      if (part.surety != Surety::Flush && (size > 0 || !wrote.cut())) left.push_back({part.lane, part.data, size});
    }
    if (left.empty()) return ncclSuccess;
    const auto free =
        std::find_if(std::begin(flushRequests_), std::end(flushRequests_), [](const Request& r) { return !r.held(); });
    if (free == std::end(flushRequests_)) break;
    free->left = std::move(left);
    free->mr = mrs[0];
    free->flush = nullptr;
    const Outcome outcome = flushNext(*free);
    if (outcome == Outcome::Broken) break;
    if (outcome == Outcome::Complete) return ncclSuccess;
    free->on(RequestEvent::Give);
    *request = &*free;
    return ncclSuccess;
  }
  return flushLost();
}

/// Of what NCCL asked to be flushed: the next part that is not, on the lane that wrote it.
RecvConnection::Outcome RecvConnection::flushNext(OwnFlush& flush) {
  while (flush.flush == nullptr && !flush.left.empty()) {
    OwnFlush::Written part = flush.left.back();
    flush.left.pop_back();
    const LanePtr lane = findLane(part.lane);
    if (lane == nullptr || lane->error) return Outcome::Broken;
    void* handle = handleOn(*lane, flush.mr);
    int size = static_cast<int>(part.size);
    const ncclResult_t result = lane->inner.net->iflush(lane->comm, 1, &part.data, &size, &handle, &flush.flush);
    if (result != ncclSuccess) return Outcome::Broken;
    flush.lane = part.lane;
  }
  return flush.flush == nullptr ? Outcome::Complete : Outcome::Waits;
}

ncclResult_t RecvConnection::testFlush(OwnFlush& request, int* done) {
  const LanePtr lane = findLane(request.lane);
  Outcome outcome = Outcome::Broken;
  if (lane != nullptr && lane->inner.net->test(request.flush, done, nullptr) == ncclSuccess) {
    outcome = Outcome::Waits;
    if (*done) request.flush = nullptr, outcome = flushNext(request);
  }
  *done = outcome == Outcome::Complete ? 1 : 0;
  if (outcome != Outcome::Waits) request.on(RequestEvent::Release);
  return outcome == Outcome::Broken ? flushLost() : ncclSuccess;
}

ncclResult_t RecvConnection::flushLost() const {
  services_.warn("R2CC: the NIC that wrote into GPU memory is gone before its data was flushed (from peer " +
                 peer.describe() + ", home " + nicName(home_) + "): the data cannot be trusted");
  return ncclRemoteError;
}

}  // namespace r2cc
