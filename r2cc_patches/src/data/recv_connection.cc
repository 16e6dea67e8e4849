#include "data/recv_connection.h"

#include <algorithm>

#include "lanes/unread.h"
#include "wire/keys.h"

namespace r2cc {
namespace {
constexpr int kDue = 4, kKeptDue = 1;  // how much a message adds to what is due
constexpr int kPeerAcksDue = 64;       // one datagram acknowledges all connections of a peer
constexpr int64_t kSuspectRepeatNs = msToNs(5);
constexpr int64_t kLeavePatienceNs = msToNs(125);  // the sender has waited for as long
constexpr int64_t kAnswerAgainNs = msToNs(5);
constexpr int64_t kMentionNs = msToNs(5000);
constexpr int64_t kAcceptLimitNs = msToNs(15000);  // a lane the sender no longer wants
}  // namespace

RecvConnection::RecvConnection(const Services& services, Peer& peer, uint64_t id, void* ctx, const Path* home)
    : Connection(services, peer, id, ctx, /*sends=*/false, NCCL_NET_MAX_REQUESTS) {
  home_ = home;
  for (OwnFlush& flush : flushRequests_) flush.connection = this, flush.isFlush = true;
}

RecvConnection::~RecvConnection() { uncount(); }

/// Nothing more will come: the others' acknowledgements need not wait for it.
void RecvConnection::uncount() {
  if (std::exchange(uncounted_, true)) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  peer.receiving -= outstanding_;
}

ncclResult_t RecvConnection::irecv(void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
  *request = nullptr;
  if (over()) return overNow();
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return ncclSuccess;
  Request* claimed = claim(data, size, tag, mr, profiler);
  *request = claimed;
  if (claimed != nullptr) peer.receiving.fetch_add(claimed->parts, std::memory_order_relaxed);
  for (int part = 0; claimed != nullptr && !rescued_.empty() && part < claimed->parts; part++) {
    if (!takeRescued(requests_.part(*claimed, part))) return ncclInvalidUsage;
  }
  pump(UINT64_MAX);
  return ncclSuccess;
}

ncclResult_t RecvConnection::test(Request& request, int* done, int* size) {
  *done = 0;
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return ncclSuccess;
  // A sender that closed left the lanes that a flush is on.
  if (request.isFlush)
    return state() == ConnectionState::Failed ? overNow() : testFlush(static_cast<OwnFlush&>(request), done);
  bool here = complete(request);
  if (!here && over()) return overNow();
  if (!over() && (!here || request.cut() || request.size >= kTurnBytes)) {
    progress();
    here = here || complete(request);
  }
  if (!here) return ackIfDue(), ncclSuccess;
  *done = 1;
  const size_t bytes = requests_.bytes(request);
  if (size != nullptr) *size = static_cast<int>(bytes);
  if (bytes > 0) unasked_ = std::exchange(told_, true);
  for (int part = 0; part < request.parts; part++) requests_.part(request, part).on(RequestEvent::Release);
  if (!ackRule_.laterWillDo(delivered(), delivered_.acked.load(std::memory_order_relaxed))) ackIfDue();
  return ncclSuccess;
}

/// All parts of NCCL's message.
bool RecvConnection::complete(const Request& head) const {
  for (int part = 0; part < head.parts; part++) {
    if (!requests_.part(head, part).finished()) return false;
  }
  return true;
}

ncclResult_t RecvConnection::give(Lane& lane, Request& r) {
  void* handle = handleOn(lane, r.mr);
  return lane.inner.net->irecv(lane.comm, 1, &r.data, &r.size, &r.tag, &handle, &r.profiler, &r.inner);
}

void RecvConnection::progress() {
  if (Lane* lane = plan_.only()) {
    progressLane(*lane);
  } else {
    bool moved = false;
    for (const PlanStep& step : plan_.steps()) {
      for (const PlanLane& l : step.lanes()) moved |= progressLane(*l.lane);
    }
    if (moved) plan_.trim(delivered());
  }
  pump(UINT64_MAX);
}

bool RecvConnection::progressLane(Lane& lane) {
  size_t bytes = 0;
  bool moved = false;
  while (bytes < kTurnBytes && !lane.posted.empty() && !lane.error && lane.state == LaneState::Up) {
    Request& r = requests_[lane.posted.front()];
    const Outcome outcome = take(lane, r);
    if (outcome == Outcome::Broken) laneError(lane);
    if (outcome != Outcome::Complete) return moved;
    lane.posted.pop();
    bytes += r.size;
    (void)lane.count(r.size);
    finished(r);
    moved = true;
  }
  return moved;
}

RecvConnection::Outcome RecvConnection::take(Lane& lane, Request& r) {
  if (r.inner != nullptr) {
    int done = 0;
    int size = 0;
    if (lane.inner.net->test(r.inner, &done, &size) != ncclSuccess) return Outcome::Broken;
    if (!done) return Outcome::Waits;
    r.inner = nullptr;
    r.size = static_cast<size_t>(size);
  }
  return needsFlush(r) ? flush(lane, r) : Outcome::Complete;
}

/// Until it is whole, or no more of it is here.
RecvConnection::Outcome RecvConnection::takeAll(Lane& lane, Request& r) {
  Outcome outcome = take(lane, r);
  if (outcome == Outcome::Waits && lane.tells)
    whileUnread(lane, [&] { return (outcome = take(lane, r)) == Outcome::Waits; });
  return outcome;
}

void RecvConnection::drainLane(Lane& lane) {
  if (lane.state != LaneState::Up) return;
  flushBeforeDrain(lane);
  if (lane.inner.ops->drain != nullptr) lane.inner.ops->drain(lane.comm);
  takeDrained(lane);
}

void RecvConnection::takeDrained(Lane& lane) {
  for (const uint64_t number : lane.posted.all()) {
    Request& r = requests_[number];
    if (r.number != number || r.finished()) continue;
    // Data that was written and not flushed is not there: the sender's copy is the one that counts, if it has one.
    const bool whole = !needsFlush(r) && takeAll(lane, r) == Outcome::Complete;
    if (whole) finished(r);
    if (!whole && !lane.inner.ops->testsInAnyOrder) return;
  }
}

void RecvConnection::finished(Request& r) {
  recorder_.done(r.number, r.size, r.lane);
  r.on(RequestEvent::Finish);
  r.inner = nullptr;
  const AckRule::Sender sender = senderOf(r);
  largest_ = std::max(largest_, r.size);
  ackRule_.arrived(r.number, r.size, sender, r.cut());
  uint64_t next = delivered();
  // Slots of messages NCCL has not yet asked about keep their number, so the prefix is read off the ring.
  while (next < posted_ && requests_[next].number == next && requests_[next].finished()) {
    next++;
    if (next == posted_ || requests_[next].parts != 0) whole_ = next;
  }
  delivered_.count.store(next, std::memory_order_release);
  outstanding_.fetch_sub(1, std::memory_order_relaxed);
  peer.receiving.fetch_sub(1, std::memory_order_relaxed);
  const int due = sender == AckRule::Sender::Waits ? kDue : kKeptDue;
  if (peer.acksDue.fetch_add(due, std::memory_order_acq_rel) == 0) peer.acksSinceNs = nowNs();
}

/// A path that the plan uses: acknowledgements go where the data comes from.
const Path* RecvConnection::ackPath() const {
  const auto& lanes = plan_.newest().lanes();
  const auto up = std::find_if(lanes.begin(), lanes.end(), [](const PlanLane& l) { return l.lane->path->up(); });
  return (up == lanes.end() ? lanes.front() : *up).lane->path;
}

/// Whether what is due waits for what other connections of this peer will soon have to say.
bool RecvConnection::waitsForOthers(int waiting) {
  const uint64_t unacked = delivered() - delivered_.acked.load(std::memory_order_relaxed);
  const int others = peer.receiving.load(std::memory_order_relaxed) - waiting;
  if (!AckRule::waitsForOthers(unacked, waiting, others, nowNs() - peer.acksSinceNs)) return false;
  if (!peer.acksHeld.load(std::memory_order_relaxed)) peer.acksHeld = true;
  return true;
}

void RecvConnection::ackIfDue() {
  const int due = peer.acksDue.load(std::memory_order_relaxed);
  if (due == 0 || plan_.empty() || !plan_.newest().lanes()[0].lane->inner.ops->needsAck) return;
  const uint64_t acked = delivered_.acked.load(std::memory_order_relaxed);
  const int waiting = outstanding_.load(std::memory_order_relaxed);
  const bool ours = ackRule_.due(delivered(), whole_, acked, waiting, copyBudget(peer.connections));
  if (!ours && !peer.acksHeld && due < kPeerAcksDue) return;
  if (due < kPeerAcksDue && !ackRule_.starves(whole_, acked) && waitsForOthers(waiting)) return;
  peer.flushAcks(*ackPath(), ackRule_.urgent(waiting));
}

// ---- the engine's side ------------------------------------------------------------------------------------------

void RecvConnection::onOpenLane(const OpenLane& message) {
  LanePtr lane = findLane(message.lane);
  LaneHandle answer;
  answer.connection = id;
  answer.lane = message.lane;
  if (lane == nullptr && !over()) {
    if (Path* path = peer.pathOf(message.remoteDev, message.localDev)) lane = listenOn(*path, message.lane);
  }
  answer.failed = lane == nullptr;
  if (lane != nullptr) answer.handle = lane->handle;
  if (lane != nullptr && lane->state == LaneState::Up) return peer.tell(laneUp(*lane));
  peer.tell(answer);
}

LanePtr RecvConnection::listenOn(Path& path, uint32_t laneId) {
  if (lanes_.size() >= kMaxLanes || path.use == PathUse::SideOnly) return nullptr;
  LanePtr lane = makeLane(laneId, &path);
  if (lane->inner.net->listen(lane->ctx, lane->dev, lane->handle.data(), &lane->listenComm) != ncclSuccess)
    return nullptr;
  const InnerOps& ops = *lane->inner.ops;
  if (ops.lockListen != nullptr)
    ops.lockListen(lane->listenComm, lane->handle.data(), laneSecret(peer.key.key(), id, laneId));
  if (peer.key.encrypts() && ops.encryptListen != nullptr)
    ops.encryptListen(lane->listenComm, peer.key.lane(id, laneId));
  addLane(lane);
  services_.connector->make(lane);
  return lane;
}

void RecvConnection::onLaneMade(const LanePtr& lane, bool ok) {
  if (lane->state != LaneState::Connecting) return;
  if (ok) return prepare(lane);
  const Owned owned(owner_, Owned::Wait::Yes);
  dropLane(lane);
}

void RecvConnection::onPrepared(const LanePtr& lane, bool ok) {
  const Owned owned(owner_, Owned::Wait::Yes);
  lane->state = LaneState::Up;
  if (!ok) return dropLane(lane);
  recorder_.laneUp(lane->id, lane->path->local, peer.remote()[lane->path->remote].dev);
  if (!lane->placed) services_.misplaced(*lane, /*forGood=*/false);
  peer.tell(laneUp(*lane));
}

/// The connection lives, and has so much. A question comes over every path.
void RecvConnection::answer() {
  const int64_t now = runNs();
  if (now - lastAnswer_ < kAnswerAgainNs) return;
  lastAnswer_ = now;
  peer.tell(Ack{id, delivered()});
}

void RecvConnection::onCloseLane(const CloseLane& message) {
  if (message.lane == kNoLane) return answer();
  const LanePtr lane = findLane(message.lane);
  const Owned owned(owner_, Owned::Wait::Yes);
  if (lane != nullptr && !inPlan(lane)) dropLane(lane);  // a lane of the plan ends by Freeze alone
}

void RecvConnection::onSwitch(const Switch& message) {
  if (message.epoch == epoch_ && lastSwitched_.epoch == epoch_) return peer.tell(lastSwitched_);
  if (message.epoch <= epoch_ || state() != ConnectionState::Active || message.lanes.empty()) return;
  if (message.parts == 0 || message.parts > kMostParts) return;
  const Owned owned(owner_, Owned::Wait::Yes);
  std::vector<PlanLane> lanes;
  for (const WeightedLane& l : message.lanes) {
    const LanePtr lane = usableLane(l.lane);
    if (lane == nullptr) return peer.tell(Suspect{id, message.epoch, l.lane});
    lanes.push_back({lane, l.weight});
  }
  epoch_ = message.epoch;
  // What NCCL has asked for is cut as it was when it did.
  lastSwitched_ = Switched{id, epoch_, std::max(message.boundary, posted_)};
  recorder_.proposeSwitch(epoch_, message.lanes[0].lane, message.boundary);
  recorder_.switched(epoch_, lastSwitched_.boundary);
  plan_.add(PlanStep(lastSwitched_.boundary, std::move(lanes), {message.parts, message.unit}));
  plan_.trim(delivered());  // an idle one would test nothing, and so never do it
  setState(ConnectionState::Active, "switch");
  peer.tell(lastSwitched_);
}

/// Leave that was given and does not arrive is data that stands still: both ends together wait as long for it.
void RecvConnection::onNoLeave(const NoLeave& message) {
  const Owned owned(owner_, Owned::Wait::Yes);
  const LanePtr lane = findLane(message.lane);
  const Request& r = requests_[message.number];
  const bool given = lane != nullptr && lane->usable() && r.number == message.number && r.lane == message.lane &&
                     r.inner != nullptr && !r.finished();
  const bool again = noLeave_.lane == message.lane && noLeave_.number == message.number && noLeaveSince_ != 0;
  const int64_t now = runNs();
  if (!given || !again) noLeaveSince_ = given ? now : 0;
  noLeave_ = message;
  if (given && !freeze_ && now - noLeaveSince_ >= kLeavePatienceNs) peer.tell(Suspect{id, epoch_, lane->id});
}

void RecvConnection::onBye(const Bye& message) {
  if (over() || farewell_) return;
  farewell_ = message;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    // What came before the farewell counts. Where that is all, lanes stay: NCCL may want GPU memory flushed on them.
    for (const LanePtr& lane : plan_.lanes()) {
      while (progressLane(*lane)) {
      }
    }
    const bool waits = hasOutstanding();
    for (const LanePtr& lane : waits ? plan_.lanes() : std::vector<LanePtr>{}) {
      const bool apart = lane->state == LaneState::Up && lane->inner.ops->fenceMayWait;
      apart ? drainApart(lane) : drainLane(*lane);
    }
  }
  if (!fencing()) end(message);
}

void RecvConnection::end(const Bye& message) {
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    if (!hasOutstanding()) return setState(ConnectionState::Closed, "by the sender");
  }
  failAsPeer(message.reason, "the peer closed it while messages were expected");
}

/// A CloseLane may have been lost: an idle lane is mentioned now and then, and closed when the sender does not know it.
void RecvConnection::mentionIdle(int64_t now) {
  if (now - lastMention_ < kMentionNs) return;
  lastMention_ = now;
  const Owned owned(owner_, Owned::Wait::Yes);  // NCCL's thread shortens the plan
  for (const LanePtr& lane : lanes_) {
    if (lane->usable() && !inPlan(lane)) peer.tell(laneUp(*lane));
  }
}

bool RecvConnection::lanesEnded() {
  const Owned owned(owner_, Owned::Wait::Yes);
  const std::vector<LanePtr> lanes = plan_.lanes();
  // Where nothing is asked for nothing is read, not even the lane's end: of uneven shares one may rest for long.
  return std::all_of(lanes.begin(), lanes.end(), [](const LanePtr& lane) {
    return lane->error || lane->state != LaneState::Up || lane->posted.empty();
  });
}

bool RecvConnection::lacksForGood() {
  const Owned owned(owner_, Owned::Wait::Yes);
  const std::vector<LanePtr> lanes = plan_.lanes();
  return std::any_of(lanes.begin(), lanes.end(),
                     [](const LanePtr& lane) { return lane->error && !lane->posted.empty(); });
}

void RecvConnection::tick(int64_t now) {
  failIfFenceHangs(now);
  if (over()) return uncount();
  mentionIdle(now);
  // Not between a Freeze and our answer: the plan still names what the sender has left, under an epoch in which that
  // would be news. A copy of it that comes behind the answer would begin it all again.
  if (attention() && !freeze_ && now - lastSuspect_ >= kSuspectRepeatNs) {
    lastSuspect_ = now;
    const Owned owned(owner_, Owned::Wait::Yes);
    for (const LanePtr& lane : plan_.lanes()) {
      if (lane->error) peer.tell(Suspect{id, epoch_, lane->id});
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
