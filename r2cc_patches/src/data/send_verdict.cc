// A lane is judged by its own data, whatever probes say: TCP may be lost where UDP passes (an ACL, one member of a LAG,
// one hash of ECMP), and large packets where small ones pass. Engine thread, under the engine's mutex.
//
// Waited for is only time in which the network owed us something: bytes that the other end's kernel did not confirm (a
// late receiver's kernel confirms them), on RDMA a work request. Nobody is judged while the peer does not answer, or
// has not answered for long enough: it may be stopped, or its whole host.
#include <algorithm>

#include "data/send_connection.h"

namespace r2cc {
namespace {

constexpr int64_t kPatienceNs = msToNs(250);
constexpr int64_t kGapsOfPatience = 8;         // times the longest wait of late that ended well
constexpr int64_t kLossyGapNs = msToNs(90);    // at most, of a wait in which packets were lost: no sign of health
constexpr int64_t kGapHalfNs = msToNs(10000);  // which counts half as much after so long
constexpr int kPatienceAnyway = 3;             // times the patience, without a byte
constexpr int kMostPatience = 4;               // doublings, where verdict after verdict helps nothing
constexpr int kMostVerdicts = 3;               // in a row on RDMA: then its NICs' own retries decide
constexpr int64_t kMostLearnedNs = msToNs(5000);
constexpr double kLeastOfNic = 1.0 / 64;  // of a NIC's rate, for one message
constexpr int64_t kLookEveryNs = msToNs(2), kMostLookNs = msToNs(20);
constexpr int64_t kAskEveryNs = msToNs(20);
constexpr int64_t kAnsweredNs = msToNs(60), kSteadyPeerNs = msToNs(100);
constexpr int kMostProofs = 4;  // asked for at a time
constexpr uint64_t kProofBytes = uint64_t{60} * 1024;
constexpr uint64_t kResent = 2;  // packets: of one alone an acknowledgement may be late
constexpr int64_t kLeaveLookNs = msToNs(20);
constexpr int kLooksATelling = 3;
constexpr int64_t kNewLaneNs = msToNs(200), kFirstLaneNs = msToNs(1000), kLaneNs = msToNs(3000);

}  // namespace

SendConnection::Waits SendConnection::waitsOn(const Path& path, int64_t stillNs) const {
  Waits out = Waits::Unseen;
  for (const LanePtr& lane : lanes_) {
    LaneSample s;
    if (lane->path != &path || lane->state != LaneState::Up || lane->error) continue;
    if (lane->inner.ops->sample == nullptr || !lane->inner.ops->sample(lane->comm, &s)) continue;
    if (s.waits && s.quietNs >= stillNs) return Waits::Yes;
    out = Waits::No;
  }
  return out;
}

int64_t SendConnection::patienceNs(int64_t now) const {
  const int64_t slowest = faded(slowestNs_, slowestAt_, now, kGapHalfNs);
  return std::max(kPatienceNs, kGapsOfPatience * slowest) << std::min(verdicts_, kMostPatience);
}

bool SendConnection::peerAnswers(int64_t now) const {
  return now - peer.lastPong < kAnsweredNs && now - peer.answersSince >= kSteadyPeerNs;
}

/// So that it can be told from a stopped one: on the lane's own path, and on another.
void SendConnection::askPeer(const Lane& lane, int64_t now) {
  if (now - lastAskedPeer_ < kAskEveryNs) return;
  lastAskedPeer_ = now;
  peer.ping(*lane.path, kNoRound, now);
  for (const auto& path : peer.paths()) {
    if (path.get() == lane.path || !path->up() || path->use == PathUse::SideOnly) continue;
    return peer.ping(*path, kNoRound, now);
  }
}

uint64_t SendConnection::confirmedOver(const Path& path) const {
  uint64_t sum = 0;
  for (const LanePtr& lane : lanes_) {
    LaneSample s;
    if (lane->path != &path || lane->state != LaneState::Up || lane->error) continue;
    if (lane->inner.ops->sample != nullptr && lane->inner.ops->sample(lane->comm, &s)) sum += s.bytes;
  }
  return sum;
}

/// A stream got as much through, or the traffic that is there did, while not a byte of this lane was confirmed for
/// `stillNs`: on a full NIC a stream loses too much to prove anything.
bool SendConnection::dataPasses(Path& path, int64_t stillNs, int64_t now) {
  uint64_t confirmed = 0;
  for (const auto& [id, connection] : peer.sends) confirmed += connection->confirmedOver(path);
  uint64_t& before = wait_.elsewhere.try_emplace(&path, confirmed).first->second;
  before = std::min(before, confirmed);  // lanes may have been closed
  if (wait_.stillNs >= stillNs && confirmed - before >= kProofBytes) path.dataThrough(now, /*clean=*/false);
  return path.provenLately(now);
}

/// Where all are as slow, none is to blame: whether data passes elsewhere is asked before anything moves there. Where
/// there is no other way, and after long, a fresh lane is worth a try all the same.
bool SendConnection::betterElsewhere(const Lane& lane, int64_t patience, int64_t now) {
  if (wait_.stillNs >= kPatienceAnyway * patience) return true;
  int others = 0;
  bool proven = false;
  for (const auto& path : peer.paths()) {
    if (path.get() == lane.path || !path->data || !path->carriesData() || others == kMostProofs) continue;
    others++;
    const bool passes = dataPasses(*path, patience / 2, now);
    proven |= passes;
    if (!passes) path->wantProof(now + kProofNs);
  }
  return proven || others == 0;
}

/// Data was just shown to pass elsewhere, and not here: a path that shares an end with one that failed may be no
/// better.
bool SendConnection::unproven(const Path& path) const {
  const int64_t now = runNs();
  const auto proven = [&](const auto& p) { return p->data && p->provenLately(now); };
  return !path.provenLately(now) && std::any_of(peer.paths().begin(), peer.paths().end(), proven);
}

/// A message got through, or nothing is waited for: the wait begins anew, and a healthy one is remembered.
bool SendConnection::waitEnds(uint64_t acked, int64_t now) {
  if (state() == ConnectionState::Active && hasOutstanding() && acked == waitAcked_) return false;
  const int64_t slowest = faded(slowestNs_, slowestAt_, now, kGapHalfNs);
  const int64_t gap = wait_.lossy ? std::min(wait_.ns, kLossyGapNs) : wait_.ns;
  // Of RDMA also after a verdict: where another lane took as long, the first was not to blame. It may have been a fault
  // of all of them.
  const bool rdma = !kept_.possible();
  const int64_t learned = verdicts_ == 0 ? gap : std::min(gap, rdma ? kMostLearnedNs : 0);
  if (acked != waitAcked_ && learned > slowest) slowestNs_ = learned, slowestAt_ = now;
  if (acked != waitAcked_) verdicts_ = 0;
  waitAcked_ = acked;
  wait_ = {};
  lastVerdictLook_ = now;
  return true;
}

/// How long one message may take on its NIC, which many share; 0: nobody knows. A registered buffer goes as one message
/// of up to 1 GiB.
int64_t SendConnection::leastNs(const Lane& lane, size_t bytes) const {
  const double gbit = (*services_.local)[lane.path->local].rateGbit;
  return gbit > 0 ? static_cast<int64_t>(static_cast<double>(bytes) * 8 / (gbit * kLeastOfNic)) : 0;
}

/// That of the oldest message which its transport has not said is over.
LanePtr SendConnection::laneInUse() const {
  LanePtr out;
  for (const LanePtr& lane : lanes_) {
    if (lane->posted.empty() || lane->state != LaneState::Up || lane->error) continue;
    if (out == nullptr || lane->posted.front() < out->posted.front()) out = lane;
  }
  return out;
}

/// The lane of the oldest message, when it has stood still for too long.
LanePtr SendConnection::stuckLane(int64_t now) {
  const uint64_t acked = std::max(acked_.load(std::memory_order_acquire), safeBelow());
  if (waitEnds(acked, now)) return nullptr;
  if (now - lastVerdictLook_ < kLookEveryNs) return nullptr;
  const int64_t passed = std::min(now - std::exchange(lastVerdictLook_, now), kMostLookNs);
  const Lane* oldest = plan_.laneFor(acked);
  LanePtr lane = oldest == nullptr ? nullptr : findLane(oldest->id);
  if (lane == nullptr || lane->state != LaneState::Up || lane->error) return nullptr;
  LaneSample s;
  int64_t onTheWayNs = 0;
  const bool sampled = lane->inner.ops->sample != nullptr && lane->inner.ops->sample(lane->comm, &s);
  if (!sampled) {
    if (lane->inner.ops->needsAck) return nullptr;  // a transport that tells nothing
    const Owned owned(owner_, Owned::Wait::No);
    if (!owned) return nullptr;
    if (acked >= posted_) {  // all arrived: NCCL has not asked yet, or its transport never says that it is over
      if (std::exchange(wait_.notOver, notOver_) == notOver_) return nullptr;
      lane = laneInUse();
      if (lane == nullptr) return wait_ = {}, nullptr;
    }
    s.waits = !lane->posted.empty();
    onTheWayNs = s.waits ? leastNs(*lane, requests_[lane->posted.front()].size) : 0;
  }
  if (!s.waits) return wait_ = {}, nullptr;
  if (wait_.lane != lane->id) {
    wait_ = {};
    wait_.resent = s.resent;
    wait_.lane = lane->id;
  }
  wait_.stillNs = s.bytes == wait_.bytes ? wait_.stillNs + passed : 0;
  wait_.bytes = s.bytes;
  wait_.ns += passed;
  const int64_t patience = std::max(patienceNs(now), onTheWayNs);
  const bool lost = !sampled || s.resent - wait_.resent >= kResent;
  wait_.lossy = sampled && lost;
  if (!lost || wait_.ns < patience / 2) return nullptr;
  askPeer(*lane, now);
  const bool better = !sampled || betterElsewhere(*lane, patience, now);
  if (wait_.ns < patience || !peerAnswers(now) || !better) return nullptr;
  if (!sampled && verdicts_ >= kMostVerdicts) return nullptr;
  verdicts_++;
  wait_ = {};
  return lane;
}

void SendConnection::judgeLanes(int64_t now) {
  if (const LanePtr lane = stuckLane(now)) standsStill(lane, now);
}

/// Its path is not used again before some time has passed, whatever probes say.
void SendConnection::standsStill(const LanePtr& lane, int64_t now) {
  lane->path->doubtData(now, lane->inner.ops->sample != nullptr);
  peer.plansVersion++;
  services_.info("R2CC: data stands still between " + nicName(lane->path) + " and peer " + peer.describe() +
                 ", though it answers: on over another lane");
  loseLane(lane, "data stands still");
}

/// On RDMA the receiver gives leave for each message, over the same lane. What is lost of that nobody but its NIC
/// knows, which tries for half a minute by default, or for ever. So while the lane refuses a message again and again,
/// and nothing is under way that could be missed, the receiver is told: only it knows whether it gave that leave.
void SendConnection::watchLeave(int64_t now) {
  if (kept_.possible() || now - lastLeaveLook_ < kLeaveLookNs) return;  // over sockets alone nobody gives leave
  lastLeaveLook_ = now;
  if (state() != ConnectionState::Active) return leave_ = {}, void();
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned) return;
  const bool lacks = nextToPost_ < std::min(posted_, holdFrom_) && requests_[nextToPost_].waits();
  const Lane* lane = lacks ? plan_.laneFor(nextToPost_) : nullptr;
  if (lane == nullptr || lane->inner.ops->needsAck || !lane->usable() || !lane->posted.empty()) {
    leave_ = {0, refusals_};
    return;
  }
  if (leave_.number != nextToPost_ || leave_.lane != lane->id) leave_ = {nextToPost_, refusals_, lane->id};
  // Of a thread of NCCL's that does not try nobody knows whether it would be refused.
  if (std::exchange(leave_.refusals, refusals_) == refusals_) return;
  if (++leave_.looks * kLeaveLookNs < patienceNs(now) / 2 || leave_.looks % kLooksATelling != 0) return;
  leave_.told = true;
  peer.tell(NoLeave{id, lane->id, nextToPost_});
}

/// How long a lane may take to be made: shorter where messages wait for it and there is another way.
int64_t SendConnection::laneLimitNs() const {
  const bool waits = state() == ConnectionState::Frozen || state() == ConnectionState::Connecting;
  int ways = 0;
  for (const auto& path : peer.paths()) ways += path->carriesData() && path->data ? 1 : 0;
  if (!waits || ways < 2) return kLaneNs;
  return everActive_ ? kNewLaneNs : kFirstLaneNs;
}

}  // namespace r2cc
