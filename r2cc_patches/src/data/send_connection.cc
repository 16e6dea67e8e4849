// The data path of the sending end; lanes are in send_lanes.cc, handshakes in send_control.cc.
#include "data/send_connection.h"

#include <algorithm>

#include "base/process_life.h"

namespace r2cc {
namespace {
constexpr int64_t kLookNs = msToNs(2);     // without an acknowledgement: then the lane is asked
constexpr int64_t kEndLookNs = msToNs(1);  // the same by a thread of NCCL that waits for one
// Without an acknowledgement: then the receiver is asked for it, where nobody probes the path.
constexpr int64_t kAskNs = msToNs(40), kMostAskNs = msToNs(1000);
constexpr int64_t kWindowLookNs = usToNs(50);  // whether the receiver's kernel has more: a look is a system call
// A lane that takes longer to make may be on a black hole. When a job starts, thousands may be made at once.
constexpr int64_t kLaneStallNs = msToNs(50), kFirstLaneStallNs = msToNs(1000);

bool takesPlainMemory(const LocalNic& nic) {
  const InnerOps* ops = nic.inner.ops;
  return ops == nullptr || (ops->plainMemory && ops->needsAck);
}

bool allPlain(const Services& services) {
  return std::all_of(services.local->begin(), services.local->end(), takesPlainMemory);
}
}  // namespace

SendConnection::SendConnection(const Services& services, Peer& peer, uint64_t id, void* ctx, uint64_t listen,
                               uint8_t homeDev, uint8_t remoteHomeDev)
    : Connection(services, peer, id, ctx, /*sends=*/true, allPlain(services) ? kMostCopies : NCCL_NET_MAX_REQUESTS),
      listen_(listen),
      homeDev_(homeDev),
      remoteHomeDev_(remoteHomeDev),
      kept_(requests_, allPlain(services)),
      madeFor_(services.scheduleConnection ? services.scheduleConnection() : ScheduleConnection{}),
      window_(madeFor_.window),
      lastMove_(runNs()) {}

SendConnection::~SendConnection() = default;

ncclResult_t SendConnection::isend(void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
  *request = nullptr;
  if (over()) return overNow();
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return ncclSuccess;
  const bool host = inHostMemory(mr);
  passCredits();
  if (windowFull(size) || cutUnsettled() || (kept_.possible() && !roomFor(plan_.cutAt(posted_), size, host))) {
    wantsRoom_.store(true, std::memory_order_relaxed);
    services_.fetchAcks();                               // for the next call
    if (state() == ConnectionState::Active) progress();  // NCCL may have nothing to test
    return ncclSuccess;
  }
  Request* claimed = claim(data, size, tag, mr, profiler);
  if (claimed != nullptr) {
    wantsRoom_.store(false, std::memory_order_relaxed);
    for (int part = 0; part < claimed->parts; part++) {
      Request& r = requests_.part(*claimed, part);
      if (kept_.wants(r.size, host)) kept_.keep(r);
    }
    load_.given(size);
    if (window_.limits()) window_.given(claimed->number, size);
  }
  *request = claimed;
  pump(holdFrom_);
  return ncclSuccess;
}

/// Of a schedule's connection: this message would be more than may be under way. Before any message is claimed, as what
/// it counts may be in a request that is used again then.
bool SendConnection::windowFull(size_t size) {
  if (!window_.limits()) return false;
  const auto pass = [&] { window_.passed(requests_[window_.oldest()].size); };
  const uint64_t through = std::max(acked(), safeBelow());
  while (window_.oldest() < through) pass();
  const int64_t now = nowNs();
  if (!window_.full(size) || now - lookedAtWindow_ < kWindowLookNs) return window_.full(size);
  lookedAtWindow_ = now;
  const auto there = [&](const Request& r) { return r.finished() && kept_.confirmed(r, lanes_, acked()); };
  while (window_.oldest() < posted_ && there(requests_[window_.oldest()])) pass();
  return window_.full(size);
}

ncclResult_t SendConnection::test(Request& request, int* done, int* size) {
  *done = 0;
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return ncclSuccess;
  // A send is done when its inner requests are over (NCCL may then reuse the buffer) and the receiver has the message,
  // or will have it from our copy.
  bool over_ = complete(request);
  if (!over_ && over()) return overNow();
  // Also for a large one that is acknowledged: those behind it would miss a turn.
  if (!over() && (!over_ || request.cut() || request.size >= kTurnBytes)) progress();
  if (!over_) {
    answerForParts(request);
    over_ = complete(request);
  }
  if (!over_) return ncclSuccess;
  *done = 1;
  if (size != nullptr) *size = static_cast<int>(requests_.bytes(request));
  release(request);
  return ncclSuccess;
}

bool SendConnection::complete(const Request& head) const {
  for (int part = 0; part < head.parts; part++) {
    const Request& r = requests_.part(head, part);
    if (!r.finished() || !answeredFor(r)) return false;
  }
  return true;
}

void SendConnection::answerForParts(Request& head) {
  const bool lent = lends(head);
  for (int part = 0; part < head.parts; part++) {
    Request& r = requests_.part(head, part);
    if (!r.finished()) return;
    if (answeredFor(r)) continue;
    if (lent) {
      r.surety = Surety::Slot;
    } else {
      answerFor(r, head.number == released_);
    }
    if (!answeredFor(r)) return;
  }
}

void SendConnection::release(Request& head) {
  toldFrom_ = head.number;
  toldLent_ = false;
  for (int part = 0; part < head.parts; part++) {
    Request& r = requests_.part(head, part);
    toldLent_ |= r.surety == Surety::Slot;
    recorder_.released(r.number, r.size);
    r.on(RequestEvent::Release);
  }
  if (!credits_.begun()) load_.over();  // else with its slot
  released_.store(head.number + head.parts, std::memory_order_release);
  outstanding_.fetch_sub(head.parts, std::memory_order_relaxed);
}

/// NCCL may be told. A transport's word is as good as its lane: what only a lane that is given up has answered for
/// waits for the receiver's count, which may lack it (GPU memory that was never flushed).
bool SendConnection::answeredFor(const Request& r) const {
  if (r.number < acked()) return true;
  if (r.surety == Surety::Lane) return state() == ConnectionState::Active || findLane(r.lane) != nullptr;
  return r.surety != Surety::Receiver;
}

bool SendConnection::roomFor(const Slicing& cut, size_t size, bool host) {
  size_t copies = 0;
  for (int part = 0; part < cut.parts; part++) {
    const size_t bytes = pieceOf(cut, size, part).size;
    copies += kept_.wants(bytes, host) ? bytes : 0;
  }
  return kept_.roomFor(copies, posted_ + cut.parts - 1, acked(), copyBudget(peer.connections));
}

/// What our kernel has is lost with a connection that is reset, and it says so only to who sends or asks.
void SendConnection::lookForEnd(Lane& lane) {
  const auto ended = lane.inner.ops->ended;
  if (ended != nullptr && lane.state == LaneState::Up && !lane.error && ended(lane.comm)) laneError(lane);
}

void SendConnection::lookForEndOf(const Request& r) {
  const int64_t now = nowNs();
  if (now - lookedForEnd_ < kEndLookNs) return;
  lookedForEnd_ = now;
  if (const LanePtr lane = findLane(r.lane)) lookForEnd(*lane);
}

/// Its lane is done with it, and the receiver has not said that it is there: whether NCCL need not wait for that.
/// `oldest`: somebody answers for all before it.
void SendConnection::answerFor(Request& r, bool oldest) {
  lookForEndOf(r);
  const size_t budget = copyBudget(peer.connections);
  kept_.settle(posted_, acked());  // what was acknowledged since NCCL gave the newest
  if (oldest && kept_.confirmed(r, lanes_, acked())) {
    r.surety = Surety::Kernel;
  } else if (kept_.wantsLate(r, inHostMemory(r.mr), posted_, acked(), budget)) {
    kept_.keep(r);
  } else {
    services_.fetchAcks();
  }
}

uint64_t SendConnection::safeBelow() const {
  const uint64_t released = released_.load(std::memory_order_acquire);
  return kept_.possible() ? std::min(released, acked_.load(std::memory_order_relaxed)) : released;
}

bool SendConnection::hasOutstanding() const {
  return Connection::hasOutstanding() || safeBelow() < released_.load(std::memory_order_acquire);
}

void SendConnection::driveReplays() {
  if (!drives_) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  if (processEnds() && hasSlots()) return;  // CUDA may take their memory away at any moment
  while (state() == ConnectionState::Active && progress()) {
  }
  drives_ = false;
  for (uint64_t number = safeBelow(); number < released_; number++) drives_ |= !requests_[number].finished();
}

ncclResult_t SendConnection::give(Lane& lane, Request& r) {
  if (r.surety == Surety::Slot && !r.held() && processEnds()) return ncclSuccess;
  const int64_t begins = lane.posted.empty() && clocked(lane) ? nowNs() : 0;
  const ncclResult_t result =
      lane.inner.net->isend(lane.comm, r.data, r.size, r.tag, handleOn(lane, r.mr), r.profiler, &r.inner);
  if (r.inner == nullptr) refusals_++;
  if (r.inner != nullptr && begins != 0) lane.clock.begin(begins);
  return result;
}

bool SendConnection::progress() {
  bool moved = false;
  if (Lane* lane = plan_.only()) {
    moved = progressLane(*lane);
  } else {
    for (const PlanStep& step : plan_.steps()) {
      for (const PlanLane& l : step.lanes()) moved |= progressLane(*l.lane);
    }
  }
  const uint64_t before = nextToPost_;
  pump(holdFrom_);
  return moved || nextToPost_ != before;
}

bool SendConnection::progressLane(Lane& lane) {
  size_t bytes = 0;
  bool moved = false;
  while (bytes < kTurnBytes && !lane.posted.empty() && !lane.error && lane.state == LaneState::Up) {
    Request& r = requests_[lane.posted.front()];
    int done = 0;
    if (lane.inner.net->test(r.inner, &done, nullptr) != ncclSuccess) return laneError(lane), moved;
    if (!done) return notOver_++, moved;
    lane.posted.pop();
    bytes += r.size;
    moved = true;
    r.inner = nullptr;
    r.on(RequestEvent::Finish);
    r.mark = lane.count(r.size);
    if (clocked(lane)) lane.clock.carried(r.size, nowNs(), !lane.posted.empty());
  }
  return moved;
}

/// Whether the way from post to completion is the only clock there is for what the lane carries. Where a send is over
/// once the kernel has it, that says nothing, and the kernel is asked instead.
bool SendConnection::clocked(const Lane& lane) const { return services_.mode >= 2 && !lane.inner.ops->needsAck; }

/// NCCL was told that it is done, and neither the receiver nor we have it.
bool SendConnection::lost(const Fenced& message) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const Request& r) {
    const bool released = r.state >= RequestState::Released && r.number < released_;
    const bool onDead = r.lane == kNoLane || findLane(r.lane) == nullptr;
    const bool ours = r.surety == Surety::Copy || r.surety == Surety::Slot;
    return released && onDead && !ours && r.number >= acked() && !message.has(r.number);
  });
}

// Invariant 4: the receiver is the truth. Of what was on dead lanes, all it has is finished and all else goes out
// again.
int64_t SendConnection::applyFenced(const Fenced& message) {
  onAck(message.delivered, /*repaired=*/true);
  int64_t replayed = 0;
  for (uint64_t number = kept_.possible() ? std::min(kept_.first(), safeBelow()) : safeBelow(); number < posted_;
       number++) {
    Request& r = requests_[number];
    if (r.lane == kNoLane || findLane(r.lane) != nullptr) continue;
    if (message.has(number) || number < acked()) {
      r.on(RequestEvent::Finish);
      r.inner = nullptr;
      continue;
    }
    r.lose();
    replayed++;
  }
  nextToPost_ = safeBelow();
  drives_ = nextToPost_ < released_;
  return replayed;
}

void SendConnection::onAck(uint64_t delivered, bool repaired) {
  // Only the engine stores acked_, so a plain maximum is enough. More than was ever sent is a broken peer.
  if (delivered <= acked_.load(std::memory_order_relaxed)) return;
  acked_.store(delivered, std::memory_order_release);
  ackedAt_ = runNs();
  if (std::exchange(asked_, false)) repaired = true;
  if (!repaired) carried(delivered - 1, ackedAt_);
}

/// The path of a lane that is needed and does not come up, or null.
const Path* SendConnection::stalledLane(int64_t now) const {
  const bool needed = state() == ConnectionState::Connecting || state() == ConnectionState::Frozen;
  if (!needed) return nullptr;
  const int64_t patience = everActive_ ? kLaneStallNs : kFirstLaneStallNs;
  for (const LanePtr& lane : lanes_) {
    if (!lane->usable() && now - lane->createdNs > patience) return lane->path;
  }
  return nullptr;
}

/// When the lane of the oldest message last heard from the other end, where its transport can tell: a large message
/// takes its time.
int64_t SendConnection::laneMoved(uint64_t acked, int64_t now) {
  Lane* lane = plan_.laneFor(acked);
  LaneSample sample;
  if (lane == nullptr || lane->state != LaneState::Up || lane->error) return 0;
  lookForEnd(*lane);
  if (lane->inner.ops->sample == nullptr || !lane->inner.ops->sample(lane->comm, &sample)) return 0;
  return now - sample.quietNs;
}

void SendConnection::carried(uint64_t number, int64_t then) {
  if (const Lane* lane = plan_.laneFor(number)) lane->path->carried(then);
}

int64_t SendConnection::movesAt() const {
  const Lane* lane = plan_.only();
  if (lane == nullptr) lane = plan_.laneFor(std::max(acked_.load(std::memory_order_relaxed), safeBelow()));
  return lane == nullptr ? lastMove_ : std::max(lastMove_, lane->path->carriedAt());
}

/// Counted anew when it carries for the first time, and once it is known how much it carries beside others.
void SendConnection::noteCarried(int64_t at) {
  const bool first = lastCarried_ == 0;
  if (first) firstCarried_ = at;
  const bool settles = firstCarried_ != 0 && at - firstCarried_ > kCarriesNs;
  if (settles) firstCarried_ = 0;
  lastCarried_ = at;
  if (first || settles) peer.recount();
}

const Path* SendConnection::stalledPath(int64_t now) {
  if (const Path* path = stalledLane(now)) return path;
  // Where a send is over once the receiver has it, that counts: acknowledgements come later.
  const uint64_t acked = std::max(acked_.load(std::memory_order_acquire), safeBelow());
  if (acked != seenAcked_) noteCarried(now);
  if (!kept_.possible() && safeBelow() > seenAcked_) carried(safeBelow() - 1, now);
  if (acked != seenAcked_ || !hasOutstanding() || state() != ConnectionState::Active) {
    lastMove_ = kept_.possible() && acked != seenAcked_ && hasOutstanding() ? std::max(lastMove_, ackedAt_) : now;
    seenAcked_ = acked;
    nextAsk_ = 0;
    return nullptr;
  }
  const bool asks = now - lastMove_ >= kAskNs && now >= nextAsk_;
  if (now - movesAt() < kLookNs && !asks) return nullptr;
  if (asks) nextAsk_ = now + std::clamp(now - lastMove_, kAskNs, kMostAskNs);  // doubles how long it has been waiting
  if (now - lastLook_ >= kLookNs) {
    lastLook_ = now;
    if (const int64_t moved = laneMoved(acked, now); moved > lastMove_) {
      lastMove_ = moved;
      noteCarried(moved);
      carried(acked, moved);
    }
  }
  if (now - movesAt() < kStallNs) {
    // Others on its path move, so the path is not probed; its own acknowledgement may have been lost.
    if (asks && now - lastMove_ >= kAskNs) {
      asked_ = true;
      peer.tell(CloseLane{id, kNoLane});
    }
    return nullptr;
  }
  const Owned owned(owner_, Owned::Wait::Yes);
  if (acked >= posted_) return lastMove_ = now, nullptr;  // all arrived; NCCL has not asked yet
  // The oldest message decides which lane is stuck. It may not even be posted: RDMA waits for a word of the receiver's.
  const Lane* lane = plan_.laneFor(acked);
  return lane == nullptr ? nullptr : lane->path;
}

void SendConnection::sample(Capacities& capacities) {
  if (plan_.empty() || state() != ConnectionState::Active) return;
  for (const LanePtr& lane : lanes_) {
    if (!inPlan(lane) || lane->state != LaneState::Up || lane->error) continue;
    LaneSample now;
    const auto ask = lane->inner.ops->sample;
    const bool asked = ask != nullptr && ask(lane->comm, &now);
    if (!asked && !clocked(*lane)) continue;
    if (!asked) {
      now = lane->clock.sample(nowNs());
      now.bytes = std::max(now.bytes, lane->sampled.bytes);  // a message may take longer than the last one did
      now.busyNs = std::max(now.busyNs, lane->sampled.busyNs);
    }
    capacities.add(*lane->path, now.bytes - lane->sampled.bytes, now.busyNs - lane->sampled.busyNs, !asked);
    lane->sampled = now;
  }
}

}  // namespace r2cc
