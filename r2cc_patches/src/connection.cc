#include "connection.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace r2cc {

const char* name(ConnectionState state) {
  switch (state) {
    case ConnectionState::Connecting:
      return "connecting";
    case ConnectionState::Active:
      return "active";
    case ConnectionState::Frozen:
      return "frozen";
    case ConnectionState::Exchanging:
      return "exchanging";
    case ConnectionState::Holding:
      return "holding";
    case ConnectionState::Closed:
      return "closed";
    case ConnectionState::Failed:
      return "failed";
  }
  return "?";
}

Connection::Connection(const Services& services, Peer& peer, uint64_t id, void* ctx, bool sends)
    : id(id), peer(peer), services_(services), ctx_(ctx), sends_(sends) {
  for (Request& request : requests_) request.connection = this;
}

Connection::~Connection() {
  for (const auto& mr : mrs_) {
    if (mr->fd >= 0) close(mr->fd);
  }
}

void Connection::setState(ConnectionState next, const std::string& cause, int64_t replayed) {
  const ConnectionState previous = state();
  if (previous >= ConnectionState::Closed) return;  // for good
  state_.store(next, std::memory_order_release);
  auto line = services_.events->line("path");
  line.add("connection", static_cast<int64_t>(id)).add("direction", sends_ ? "send" : "recv");
  line.add("state", name(next)).add("epoch", epoch_).add("cause", cause).add("peer", peer.describe());
  line.add("home_nic", nicName(home_)).add("nic", nicName(planPath()));
  if (planPath() != nullptr) line.add("peer_nic", peer.remote()[planPath()->remote].dev);
  if (replayed >= 0) line.add("replayed", replayed);
}

std::string Connection::nicName(const Path* path) const {
  return path == nullptr ? "" : (*services_.local)[path->local].name;
}

Request* Connection::claim(void* data, size_t size, int tag, void* mr, void* profiler) {
  Request& r = slot(posted_);
  if (r.used) return nullptr;
  r.number = posted_++;
  r.data = data, r.size = size, r.tag = tag, r.mr = mr, r.profiler = profiler, r.inner = nullptr;
  r.used = true, r.finished = false;
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  return &r;
}

Lane* Connection::laneFor(uint64_t number) const {
  Lane* lane = nullptr;
  for (const PlanStep& step : plan_) {
    if (step.from <= number) lane = step.lane.get();
  }
  return lane;
}

void Connection::trimPlan(uint64_t through) {
  // Messages may have arrived whose inner requests are not yet over: only a lane of the plan is tested.
  while (plan_.size() > 1 && plan_[1].from <= through && plan_[0].lane->posted.empty()) plan_.erase(plan_.begin());
}

LanePtr Connection::findLane(uint32_t laneId) const {
  const auto it = std::find_if(lanes_.begin(), lanes_.end(), [&](const LanePtr& l) { return l->id == laneId; });
  return it == lanes_.end() ? nullptr : *it;
}

bool Connection::inPlan(const LanePtr& lane) const {
  return std::any_of(plan_.begin(), plan_.end(), [&](const PlanStep& step) { return step.lane == lane; });
}

void Connection::laneError(Lane& lane) {
  lane.error = true;
  attention_ = true;
  services_.wake();
}

void Connection::dropLane(LanePtr lane) {
  // The state first: until the lane is up, its comm belongs to the connector's thread.
  if (lane->state == LaneState::Up) services_.inner.ops->fence(lane->comm);
  for (const auto& mr : mrs_) {
    const auto on = std::find_if(mr->lanes.begin(), mr->lanes.end(), [&](auto& l) { return l.lane == lane.get(); });
    if (on == mr->lanes.end()) continue;
    (void)services_.inner.net->deregMr(lane->comm, on->handle);
    mr->lanes.erase(on);
  }
  services_.connector->close(lane);
  lanes_.erase(std::remove(lanes_.begin(), lanes_.end(), lane), lanes_.end());
}

void Connection::dropPlan() {
  for (const PlanStep& step : plan_) dropLane(step.lane);
  plan_.clear();
}

void Connection::fail(const std::string& why) {
  if (over()) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  if (hasOutstanding()) services_.warn("R2CC: connection failed: " + why);
  setState(ConnectionState::Failed, why);
  dropAll();
  peer.tell(bye());  // the other end must not wait for one that has given up
}

void Connection::dropAll() {
  while (!lanes_.empty()) dropLane(lanes_.back());
  plan_.clear();
}

void Connection::shutdown() {
  const Owned owned(owner_, Owned::Wait::Yes);
  dropAll();
}

bool Connection::registerOn(const LanePtr& lane) {
  for (const auto& mr : mrs_) {
    void* handle = nullptr;
    const ncclNet_t& net = *services_.inner.net;
    const ncclResult_t result =
        mr->fd >= 0 ? net.regMrDmaBuf(lane->comm, mr->data, mr->size, mr->type, mr->offset, mr->fd, &handle)
                    : net.regMr(lane->comm, mr->data, mr->size, mr->type, &handle);
    if (result != ncclSuccess) return false;
    mr->lanes.push_back({lane.get(), handle});
  }
  return true;
}

ncclResult_t Connection::regMr(void* data, size_t size, int type, uint64_t offset, int fd, void** handle) {
  const Owned owned(owner_, Owned::Wait::Yes);
  auto mr = std::make_unique<Mr>(Mr{data, size, type, offset, fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0), {}});
  for (const LanePtr& lane : lanes_) {
    if (lane->state != LaneState::Up) continue;
    void* inner = nullptr;
    const ncclNet_t& net = *services_.inner.net;
    const ncclResult_t result = fd >= 0 ? net.regMrDmaBuf(lane->comm, data, size, type, offset, mr->fd, &inner)
                                        : net.regMr(lane->comm, data, size, type, &inner);
    if (result != ncclSuccess) {
      unregister(*mr);
      return result;
    }
    mr->lanes.push_back({lane.get(), inner});
  }
  *handle = mr.get();
  mrs_.push_back(std::move(mr));
  return ncclSuccess;
}

void Connection::unregister(Mr& mr) {
  for (const Mr::OnLane& on : mr.lanes) (void)services_.inner.net->deregMr(on.lane->comm, on.handle);
  mr.lanes.clear();
  if (mr.fd >= 0) close(mr.fd);
  mr.fd = -1;
}

ncclResult_t Connection::deregMr(void* handle) {
  // A send that has left may still have to go out again, until NCCL was told that it is done.
  const auto uses = [&](const Request& r) { return r.used && (sends_ || !r.finished) && r.mr == handle; };
  const auto inUse = [&] {
    const Owned owned(owner_, Owned::Wait::Yes);  // NCCL's progress thread may be using other memory
    return std::any_of(std::begin(requests_), std::end(requests_), uses);
  };
  if (!over() && inUse()) fail("memory was deregistered while requests were using it");
  const Owned owned(owner_, Owned::Wait::Yes);
  const auto it = std::find_if(mrs_.begin(), mrs_.end(), [&](const auto& mr) { return mr.get() == handle; });
  if (it == mrs_.end()) return ncclSuccess;
  unregister(**it);
  mrs_.erase(it);
  return ncclSuccess;
}

void* Connection::handleOn(const Lane& lane, void* mr) const {
  if (mr == nullptr) return nullptr;
  for (const Mr::OnLane& on : static_cast<const Mr*>(mr)->lanes) {
    if (on.lane == &lane) return on.handle;
  }
  return nullptr;
}

}  // namespace r2cc
