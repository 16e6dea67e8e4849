#include "data/connection.h"

#include <algorithm>

#include "record/flight.h"

namespace r2cc {
namespace {

/// As much as a Bye carries.
std::vector<uint8_t> bytesOf(const std::string& text) {
  return {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), kMaxReason))};
}

}  // namespace

Connection::Connection(const Services& services, Peer& peer, uint64_t id, void* ctx, bool sends, size_t ring)
    : requests_(this, ring), id(id), peer(peer), services_(services), ctx_(ctx), sends_(sends) {
  if (services.flight != nullptr) recorder_ = services.flight->open(id, sends, peer.id);
}

Connection::~Connection() = default;

void Connection::setState(ConnectionState next, const std::string& cause, int64_t replayed) {
  const ConnectionState previous = state();
  if (previous >= ConnectionState::Closed) return;  // for good
  state_.store(next, std::memory_order_release);
  peer.exchanging += (next == ConnectionState::Exchanging ? 1 : 0) - (previous == ConnectionState::Exchanging ? 1 : 0);
  if (next == ConnectionState::Active || next >= ConnectionState::Closed) count(next == ConnectionState::Active);
  if (services_.tally != nullptr) tally(previous, next, cause);
  recorder_.state(static_cast<uint8_t>(next), epoch_, cause,
                  {peer.describe(), nicName(home_), home_ == nullptr ? -1 : int{peer.remote()[home_->remote].dev}});
  auto line = services_.events->line("path");
  line.add("connection", static_cast<int64_t>(id)).add("direction", sends_ ? "send" : "recv");
  line.add("state", name(next)).add("epoch", epoch_).add("cause", cause).add("peer", peer.describe());
  line.add("home_nic", nicName(home_)).add("nic", nicName(planPath()));
  if (planPath() != nullptr) line.add("peer_nic", peer.remote()[planPath()->remote].dev);
  if (!plan_.empty() && plan_.newest().lanes().size() > 1) line.add("shares", planShares());
  if (replayed >= 0) line.add("replayed", replayed);
}

/// From its first message on until its last.
void Connection::count(bool in) {
  if (std::exchange(counted_, in) == in) return;
  if (in) {
    peer.connections++;
  } else {
    peer.connections--;
  }
}

/// The sending end alone: two ends would count everything twice. Lost is what a hold ended, whose text names its
/// setting, at both ends: a job that is ended, or a process that died, is not the network's doing.
void Connection::tally(ConnectionState previous, ConnectionState next, const std::string& cause) {
  const int64_t now = runNs();
  if (next == ConnectionState::Failed && cause.find("R2CC_HOLD_MS") != std::string::npos) services_.tally->lost();
  if (!sends_) return;
  const bool holds = next == ConnectionState::Holding, held = previous == ConnectionState::Holding;
  if (holds != held) services_.tally->holds(now, holds);
  const bool stops = previous == ConnectionState::Active && next < ConnectionState::Closed && next != previous;
  const bool ends = next == ConnectionState::Active || next >= ConnectionState::Closed;
  if (stops && stoppedNs_ == 0 && isOwed()) services_.tally->stops(stoppedNs_ = now);
  if (ends && stoppedNs_ != 0) services_.tally->goesOn(now, now - std::exchange(stoppedNs_, 0));
}

const Connection::Seat& Connection::seat() {
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned || plan_.empty()) return seat_;
  seat_ = {home_, 0, false};
  for (const PlanStep& step : plan_.steps()) {
    for (const PlanLane& l : step.lanes()) seat_.nics |= uint32_t{1} << l.lane->path->local;
  }
  for (const PlanLane& l : plan_.newest().lanes()) seat_.away |= l.lane->path != home_;
  return seat_;
}

void Connection::addBytes(std::array<uint64_t, Tally::kNics>& byNic) const {
  for (const LanePtr& lane : lanes_) byNic[lane->path->local] += lane->moved.load(std::memory_order_relaxed);
}

std::string Connection::nicName(const Path* path) const {
  return path == nullptr ? "" : (*services_.local)[path->local].name;
}

std::string Connection::planShares() const {
  std::string out;
  for (const PlanLane& l : plan_.newest().lanes()) {
    out += (out.empty() ? "" : ",") + nicName(l.lane->path) + ":" + std::to_string(l.weight);
  }
  return out;
}

LanePtr Connection::makeLane(uint32_t laneId, Path* path) {
  const LocalNic& nic = (*services_.local)[path->local];
  auto lane =
      std::make_shared<Lane>(this, laneId, sends_, path, nic.dev, nic.inner, nic.ctx != nullptr ? nic.ctx : ctx_);
  lane->keeps = nic.keeps;
  lane->createdNs = runNs();
  return lane;
}

Request* Connection::claim(void* data, size_t size, int tag, void* mr, void* profiler) {
  const Slicing cut = plan_.cutAt(posted_);
  if (outstanding_.load(std::memory_order_relaxed) + cut.parts > NCCL_NET_MAX_REQUESTS) return nullptr;
  for (int part = 0; part < cut.parts; part++) {
    if (requests_[posted_ + static_cast<uint64_t>(part)].held()) return nullptr;
  }
  Request& head = requests_[posted_];
  for (int part = 0; part < cut.parts; part++) {
    const Piece piece = pieceOf(cut, size, part);
    Request& r = requests_[posted_];
    r.number = posted_++;
    r.data = data == nullptr ? nullptr : static_cast<uint8_t*>(data) + piece.offset, r.size = piece.size;
    r.tag = tag, r.mr = mr, r.profiler = profiler;
    r.inner = r.flush = nullptr, r.lane = kNoLane;
    r.surety = Surety::Receiver;
    r.wasLent = false;
    r.parts = part == 0 ? cut.parts : 0;
    r.on(RequestEvent::Give);
  }
  outstanding_.fetch_add(cut.parts, std::memory_order_relaxed);
  requests_.fetch(posted_);
  return &head;
}

void Connection::pump(uint64_t end) {
  if (nextToPost_ >= std::min(posted_, end) || plan_.empty() || over()) return;
  const Lane* blocked[kMaxLanes];
  size_t blockedCount = 0;
  bool prefix = true;
  for (uint64_t number = nextToPost_; number < std::min(posted_, end); number++) {
    Request& r = requests_[number];
    if (r.waits()) {
      Lane* lane = plan_.laneFor(number);
      const bool waits = std::find(blocked, blocked + blockedCount, lane) != blocked + blockedCount;
      if (waits || !post(r, *lane)) {
        prefix = false;
        if (!waits && blockedCount < kMaxLanes) blocked[blockedCount++] = lane;
        continue;
      }
    }
    if (prefix) nextToPost_ = number + 1;
  }
}

/// False when the lane takes nothing now.
bool Connection::post(Request& r, Lane& lane) {
  if (lane.error || lane.state != LaneState::Up || lane.posted.full()) return false;
  r.inner = nullptr;
  if (give(lane, r) != ncclSuccess) return laneError(lane), false;
  if (r.inner == nullptr) return false;
  if (!lane.posted.push(r.number)) return laneError(lane), false;
  recorder_.post(r.number, r.size, lane.id);
  r.postedOn(lane);
  return true;
}

LanePtr Connection::findLane(uint32_t laneId) const {
  const auto it = std::find_if(lanes_.begin(), lanes_.end(), [&](const LanePtr& l) { return l->id == laneId; });
  return it == lanes_.end() ? nullptr : *it;
}

bool Connection::hasLaneUp() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const LanePtr& lane) { return lane->state == LaneState::Up && !lane->error; });
}

void Connection::addLane(const LanePtr& lane) {
  const Owned owned(owner_, Owned::Wait::Yes);
  lanes_.push_back(lane);
}

void Connection::laneError(Lane& lane) {
  lane.error = true;
  attention_ = true;
  peer.brokeNs.store(runNs(), std::memory_order_relaxed);
  services_.wake();
}

void Connection::fail(const std::string& why, const std::vector<uint8_t>& heard) {
  if (over()) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  const std::string &host = services_.host, nic = home_ == nullptr ? "" : " over " + nicName(home_);
  const std::string cause = why + peer.lostLinks(host);
  const std::string text = "connection" + nic + " of " + host + " to peer " + peer.describe() + " failed: " + cause;
  // Also when nothing was sent yet: a connect that never returns is as bad.
  if (isOwed() || state() == ConnectionState::Connecting) services_.warn("R2CC: " + text);
  reason_ = heard.empty() ? bytesOf(host + ": " + cause) : heard;
  if (!services_.firstFailure->stands(runNs()))
    *services_.firstFailure = {std::string(reason_.begin(), reason_.end()), runNs()};
  endAs(ConnectionState::Failed, why);
  peer.tell(bye());  // the other end must not wait for one that has given up
}

/// One that is closed although messages are missing says why its process gave up another.
Bye Connection::bye() const {
  const bool own = !reason_.empty() || !services_.firstFailure->stands(runNs());
  const uint64_t count = sends_ ? 0 : through();
  return {id, static_cast<uint8_t>(sends_), count, own ? reason_ : bytesOf(services_.firstFailure->why)};
}

void Connection::failAsPeer(const std::vector<uint8_t>& reason, const char* otherwise) {
  fail(reason.empty() ? otherwise : "the peer says: " + readable(reason), reason);
}

std::string Connection::readable(const std::vector<uint8_t>& reason) {
  std::string out(reason.begin(), reason.end());
  std::replace_if(out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

void Connection::shutdown() {
  const Owned owned(owner_, Owned::Wait::Yes);
  dropAll();
  if (state() == ConnectionState::Exchanging) peer.exchanging--;
  count(false);
  // What is closed while it stands still stands still no longer.
  if (services_.tally != nullptr && state() < ConnectionState::Closed) tally(state(), ConnectionState::Closed, "");
  shut_ = true;
  forgetMemory();
}

// ---- giving lanes up
// -------------------------------------------------------------------------------------------------

// Giving lanes up. A queue pair takes up to 200 ms until it lets go: such fences run on helpers, those of many lanes at
// once, and whoever must not go on before they are over asks fencing() (invariant 3: the sender reports a lane as lost
// only then, the receiver counts only then).

/// Nothing is posted on it or tested any more. The state first: until the lane is up, its comm belongs to the
/// connector's thread.
void Connection::retire(const LanePtr& lane) {
  recorder_.laneDown(lane->id, lane->error ? "transport error" : !lane->path->up() ? "path down" : "given up");
  if (services_.tally != nullptr) {
    Tally::NicBytes& bytes = services_.tally->closed[lane->path->local];
    (sends_ ? bytes.sent : bytes.received) += lane->moved.load(std::memory_order_relaxed);
  }
  lanes_.erase(std::remove(lanes_.begin(), lanes_.end(), lane), lanes_.end());
  if (lane->state == LaneState::Up && lane->inner.ops->fenceMayWait) {
    lane->state = LaneState::Closed;
    if (fencing_ == 0) fencingSince_ = runNs();  // before it counts: who sees that it waits goes by this
    fencing_++;
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
  if (up && !lane->inOrder) lane->inner.ops->fence(lane->comm);
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

void Connection::endAs(ConnectionState state, const std::string& cause) {
  if (fencing_++ == 0) fencingSince_ = runNs();
  setState(state, cause);
  dropAll();
  fencing_--;
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
/// The line that says why is out before: NCCL's last error is that line (ncclGetLastError).
ncclResult_t Connection::overNow() const {
  if (fencing() && runNs() - fencingSince_ < kFenceLimitNs) return ncclSuccess;
  if (state() == ConnectionState::Failed) services_.said();
  return ncclRemoteError;
}

}  // namespace r2cc
