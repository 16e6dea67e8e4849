// Registered memory. Registering pins pages, which takes seconds for a large buffer: where the transport says so
// (InnerOps::memoryMayWait) it is called with neither the engine's mutex nor the connection's ownership held.
//
// A lane is up only when all memory that NCCL knows is registered on it. regMr registers on the lanes that are up,
// prepare() on one that comes up; each looks, under the mutex, for what is lacking until nothing is, so that the two
// never leave a gap. While an entry is Making nobody else touches it, and the lane is not closed (Lane::users).
#include <fcntl.h>

#include <algorithm>

#include "data/connection.h"

namespace r2cc {
namespace {

// Ten times what a fence may take on verbs, and more. A transport that needs longer than this hangs.
constexpr auto kFenceLimit = std::chrono::seconds(10);

bool mayWait(const Lane& lane) { return lane.inner.ops->memoryMayWait; }

ncclResult_t call(const Mr& mr, const Lane& lane, void** handle) {
  const ncclNet_t& net = *lane.inner.net;
  return mr.fd.valid() ? net.regMrDmaBuf(lane.comm, mr.data, mr.size, mr.type, mr.offset, mr.fd.get(), handle)
                       : net.regMr(lane.comm, mr.data, mr.size, mr.type, handle);
}

/// With the connection's ownership, by transports that take no time for it.
ncclResult_t registerAtOnce(Mr& mr, const LanePtr& lane) {
  void* handle = nullptr;
  const ncclResult_t result = call(mr, *lane, &handle);
  if (result == ncclSuccess) mr.lanes.push_back({lane, handle, Mr::State::There});
  return result;
}

bool making(const Mr& mr) {
  return std::any_of(mr.lanes.begin(), mr.lanes.end(), [](const auto& on) { return on.state == Mr::State::Making; });
}

}  // namespace

Mr::OnLane* Mr::on(const Lane& lane) {
  const auto found = std::find_if(lanes.begin(), lanes.end(), [&](const OnLane& l) { return l.lane.get() == &lane; });
  return found == lanes.end() ? nullptr : &*found;
}

void* Connection::handleOn(const Lane& lane, void* mr) const {
  if (mr == nullptr) return nullptr;
  for (const Mr::OnLane& on : static_cast<const Mr*>(mr)->lanes) {
    if (on.lane.get() == &lane) return on.handle;
  }
  return nullptr;
}

// ---- there ------------------------------------------------------------------------------------------------------

ncclResult_t Connection::regMr(EngineLock& engine, void* data, size_t size, int type, uint64_t offset, int fd,
                               void** handle) {
  const auto mr = std::make_shared<Mr>(
      Mr{data, size, type, offset, Fd(fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0)), false, false, {}});
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    mrs_.push_back(mr);
  }
  ncclResult_t result = ncclSuccess;
  while (const LanePtr lane = result == ncclSuccess ? lacking(*mr) : nullptr) {
    result = registerOn(engine, mr, lane);
    if (result == ncclSuccess || inPlan(lane)) continue;
    // NICs differ, and this one only stands by: it carries nothing of this connection, and NCCL's call does not fail.
    lane->error = true;
    attention_ = true;
    services_.wake();
    result = ncclSuccess;
  }
  if (result != ncclSuccess) return (void)release(engine, mr), result;
  mr->known = true;
  const std::vector<LanePtr> anchors = services_.anchors->ready();
  for (const LanePtr& anchor : anchors) {
    // Each of them takes a while, in which the device of another may be lost and its anchor closed.
    if (anchor->state == LaneState::Up && mr->on(*anchor) == nullptr) (void)registerOn(engine, mr, anchor);
  }
  *handle = mr.get();
  return ncclSuccess;
}

LanePtr Connection::lacking(const Mr& mr) const {
  const auto lacks = [&](const LanePtr& lane) {
    return lane->state == LaneState::Up && !lane->error &&
           std::none_of(mr.lanes.begin(), mr.lanes.end(), [&](const auto& on) { return on.lane == lane; });
  };
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), lacks);
  return lane == lanes_.end() ? nullptr : *lane;
}

/// By NCCL's thread. A lane that is lost meanwhile is no failure.
ncclResult_t Connection::registerOn(EngineLock& engine, const MrPtr& mr, const LanePtr& lane) {
  if (!mayWait(*lane)) {
    const Owned owned(owner_, Owned::Wait::Yes);
    return registerAtOnce(*mr, lane);
  }
  begin(*mr, lane);
  void* handle = nullptr;
  engine.unlock();
  const ncclResult_t result = call(*mr, *lane, &handle);
  engine.lock();
  registered(*mr, lane, result, handle);
  return lane->state == LaneState::Closed ? ncclSuccess : result;
}

void Connection::begin(Mr& mr, const LanePtr& lane) {
  const Owned owned(owner_, Owned::Wait::Yes);
  mr.lanes.push_back({lane, nullptr, Mr::State::Making});
  lane->users++;
}

/// Or could not be. What was registered on a lane that is given up meanwhile is taken back.
void Connection::registered(Mr& mr, const LanePtr& lane, ncclResult_t result, void* handle) {
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    Mr::OnLane* on = mr.on(*lane);
    const bool ok = result == ncclSuccess, lost = lane->state == LaneState::Closed || shut_;
    on->handle = handle;
    on->state = ok ? Mr::State::There : Mr::State::Failed;
    if (lost) mr.lanes.erase(mr.lanes.begin() + (on - mr.lanes.data()));
    if (lost && ok) releasing_++, giveBack(services_, weak_from_this(), lane, {handle}, /*close=*/false);
  }
  lane->users--;
  services_.settled->notify_all();
}

void Connection::prepare(const LanePtr& lane) {
  const bool anchor = lane->connection == nullptr;
  bool ok = true;
  for (const MrPtr& mr : mrs_) {
    if (!mr->known || mr->ended || mr->on(*lane) != nullptr) continue;
    if (!mayWait(*lane)) {
      const Owned owned(owner_, Owned::Wait::Yes);
      ok &= registerAtOnce(*mr, lane) == ncclSuccess;
      continue;
    }
    begin(*mr, lane);
    struct Made {
      ncclResult_t result = ncclSuccess;
      void* handle = nullptr;
    };
    const auto made = std::make_shared<Made>();
    const auto slow = [mr, lane, made] { made->result = call(*mr, *lane, &made->handle); };
    services_.apart(slow, [&services = services_, whose = weak_from_this(), mr, lane, made, anchor] {
      const auto connection = whose.lock();
      if (connection == nullptr) {
        if (made->result == ncclSuccess) giveBack(services, whose, lane, {made->handle}, /*close=*/false);
        lane->users--;
        return;
      }
      connection->registered(*mr, lane, made->result, made->handle);
      if (lane->state == LaneState::Closed || connection->shut_) return;
      lane->createdNs = runNs();  // it is not late: it is being worked on
      if (made->result != ncclSuccess && !anchor) return connection->onPrepared(lane, false);
      connection->prepare(lane);  // the next one
    });
    return;
  }
  if (!anchor) onPrepared(lane, ok);
}

// ---- back -------------------------------------------------------------------------------------------------------

ncclResult_t Connection::deregMr(EngineLock& engine, void* handle) {
  // A send that has left may still have to go out again, until NCCL was told that it is done.
  const auto uses = [&](const Request& r) { return r.held() && (sends_ || !r.finished()) && r.mr == handle; };
  const auto inUse = [&] {
    const Owned owned(owner_, Owned::Wait::Yes);  // NCCL's progress thread may be using other memory
    return std::any_of(std::begin(requests_), std::end(requests_), uses);
  };
  if (!over() && inUse()) fail("memory was deregistered while requests were using it");
  if (!over()) onDeregister(handle);
  const auto it = std::find_if(mrs_.begin(), mrs_.end(), [&](const auto& mr) { return mr.get() == handle; });
  return it == mrs_.end() ? ncclSuccess : release(engine, MrPtr(*it));
}

/// A registration that is forgotten in a transport's cache would be found again for other memory at the same address:
/// so all of it is over when this returns, lanes that are being given up included.
ncclResult_t Connection::release(EngineLock& engine, const MrPtr& mr) {
  mr->ended = true;
  services_.settled->wait(engine, [&] { return !making(*mr); });
  const bool let = services_.settled->wait_for(engine, kFenceLimit, [this] { return releasing_ == 0; });
  while (!mr->lanes.empty()) {
    Mr::OnLane on{};
    {
      const Owned owned(owner_, Owned::Wait::Yes);
      on = mr->lanes.back();
      mr->lanes.pop_back();
    }
    if (on.state == Mr::State::There) takeOff(engine, on);
  }
  const Owned owned(owner_, Owned::Wait::Yes);
  mrs_.erase(std::remove(mrs_.begin(), mrs_.end(), mr), mrs_.end());
  return let ? ncclSuccess : ncclSystemError;
}

void Connection::takeOff(EngineLock& engine, const Mr::OnLane& on) {
  const ncclNet_t& net = *on.lane->inner.net;
  if (!mayWait(*on.lane)) {
    const Owned owned(owner_, Owned::Wait::Yes);
    (void)net.deregMr(on.lane->comm, on.handle);
    return;
  }
  on.lane->users++;
  engine.unlock();
  (void)net.deregMr(on.lane->comm, on.handle);
  engine.lock();
  on.lane->users--;
}

/// What is registered on a lane that is given up; the caller takes it back. Owner held.
std::vector<void*> Connection::takeHandles(const Lane& lane) {
  std::vector<void*> out;
  for (const MrPtr& mr : mrs_) {
    const Mr::OnLane* on = mr->on(lane);
    if (on == nullptr || on->state == Mr::State::Making) continue;
    if (on->state == Mr::State::There) out.push_back(on->handle);
    mr->lanes.erase(mr->lanes.begin() + (on - mr->lanes.data()));
  }
  return out;
}

void Connection::leave(const LanePtr& anchor) {
  std::vector<void*> handles;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    handles = takeHandles(*anchor);
  }
  if (handles.empty()) return;
  releasing_++;
  giveBack(services_, weak_from_this(), anchor, handles, /*close=*/false);
}

/// What NCCL forgot is still on the anchors. Owner held.
void Connection::forgetMemory() {
  for (const MrPtr& mr : mrs_) {
    for (const Mr::OnLane& on : mr->lanes) {
      if (on.state != Mr::State::There) continue;
      releasing_++;
      giveBack(services_, weak_from_this(), on.lane, {on.handle}, /*close=*/false);
    }
    const auto over = [](const Mr::OnLane& on) { return on.state != Mr::State::Making; };
    mr->lanes.erase(std::remove_if(mr->lanes.begin(), mr->lanes.end(), over), mr->lanes.end());
  }
}

/// Deregisters, and closes the lane then if that is what is left to do.
void Connection::giveBack(const Services& services, const std::weak_ptr<Connection>& whose, const LanePtr& lane,
                          const std::vector<void*>& handles, bool close) {
  if (handles.empty()) {
    if (close) services.connector->close(lane);
    if (const auto connection = whose.lock()) connection->releasing_--;
    return;
  }
  const auto slow = [lane, handles] {
    for (void* handle : handles) (void)lane->inner.net->deregMr(lane->comm, handle);
  };
  const auto then = [&services, whose, lane, close] {
    if (close) services.connector->close(lane);
    lane->users--;
    if (const auto connection = whose.lock()) connection->releasing_--;
  };
  lane->users++;
  services.apart(slow, then);
}

}  // namespace r2cc
