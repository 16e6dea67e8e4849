// The sending end: posts messages to the plan's lanes, and coordinates every change of the plan, so that a double
// detection can never start two different failovers.
//
//   failover  a lane of the plan failed: fence it, find a fresh one, Freeze -> Fenced, replay what the receiver lacks;
//             the other lanes of the plan go on meanwhile
//   switch    another plan is better (home is back, balance): Switch -> Switched agrees a message number; nothing is
//             fenced, nothing stops
#pragma once

#include <map>
#include <optional>

#include "data/ack_rule.h"
#include "data/connection.h"
#include "data/hold.h"
#include "data/kept_messages.h"
#include "data/lent_looks.h"
#include "data/load.h"
#include "data/send_window.h"
#include "data/slot_credits.h"
#include "lanes/cut_change.h"
#include "paths/capacity.h"
#include "paths/wanted.h"

namespace r2cc {

class SendConnection final : public Connection {
 public:
  /// `home`: the devices NCCL chose. The path is known once the receiver has said which NICs it has.
  SendConnection(const Services& services, Peer& peer, uint64_t id, void* ctx, uint64_t listen, uint8_t homeDev,
                 uint8_t remoteHomeDev);
  ~SendConnection() override;

  // NCCL's side
  ncclResult_t isend(void* data, size_t size, int tag, void* mr, void* profiler, void** request);
  ncclResult_t test(Request& request, int* done, int* size) override;
  /// NCCL's fork, after each message that it was told is done: the head it may publish instead of `head`.
  uint64_t headAfter(uint64_t head);
  /// The same later, while it has something to send here; `more`: a higher one than before.
  ncclResult_t moreCredit(uint64_t& head, bool& more);

  // The engine's side
  void onWelcome(const Welcome& message);
  void onLaneHandle(const LaneHandle& message);
  void onLaneUp(const LaneUp& message);
  void onLaneMade(const LanePtr& lane, bool ok) override;
  void onPrepared(const LanePtr& lane, bool ok) override;
  void onAllFenced() override;
  void onSuspect(const Suspect& message);
  void onFenced(const Fenced& message);
  void onSwitched(const Switched& message);
  /// `repaired`: it came with the answer to a question, over whatever path, and may be old.
  void onAck(uint64_t delivered, bool repaired = false);
  void onBye(const Bye& message);
  void onPathDown(const Path* path, const std::string& cause);
  void tick(int64_t now);
  /// Copies that NCCL was told are done move only when somebody tests them.
  void driveReplays();
  void ask() override {
    asked_ = true;
    peer.tellEverywhere(CloseLane{id, kNoLane});
  }

  /// The path whose traffic stands still, or null: messages are out and none was acknowledged for kStallNs, or the
  /// lane to go on with does not come up.
  const Path* stalledPath(int64_t now);
  /// After stalledPath(now): until when nobody need look again; INT64_MAX when nothing is under way. Not after now
  /// where something is being agreed, or has not moved for long.
  int64_t restsUntil(int64_t now) const {
    if (over()) return INT64_MAX;
    if (state() != ConnectionState::Active || proposed_ || drives_) return now;
    return hasOutstanding() ? movesAt() + kStallNs : INT64_MAX;
  }
  /// Whether data is on its way over a path and its transport has heard nothing for `stillNs`; Unseen: no transport of
  /// ours there can tell.
  enum class Waits : uint8_t { Unseen, No, Yes };
  Waits waitsOn(const Path& path, int64_t stillNs) const;
  /// What was asked and not answered is asked again at once.
  void askAgain() {
    nextRepeat_ = 0;
    repeatAfter_ = 0;
  }
  /// Adds what every lane of the plan carried since the last look to its path's account.
  void sample(Capacities& capacities);
  const Path* home() const { return home_; }
  /// Whether it counts as demand.
  bool carriesLately(int64_t now) const { return carriedSince(now - kCarriesNs); }
  /// NCCL's communicator, where its interface names one.
  const void* context() const { return ctx_; }
  /// That NCCL gave it so far.
  uint64_t bytesGiven() const { return load_.bytes(); }
  /// Made for schedules alone.
  bool ofSchedule() const { return window_.ofSchedule(); }
  bool carriedSince(int64_t since) const { return lastCarried_ >= since; }
  bool hasOutstanding() const override;
  /// NCCL closed it, and copies are not acknowledged yet: it lives on until they are, or until it fails. A receiver may
  /// ask late, however long: stock's kernel would keep them as well.
  void linger() { lingers_ = true; }
  bool lingers() const { return lingers_; }
  /// Of a lingering one, at the engine's end: from now on its kernel alone has what is sent, as in stock.
  void leaveToKernel();
  /// Of a lingering one: among what it keeps are slots that were lent, which NCCL would have waited for otherwise.
  bool owesLent() const;
  /// A path is up, and no lane could be made on it for long.
  bool held() const;
  /// A lingering one has nothing left to do; or it was closed with requests that NCCL gave up.
  bool lingered() const { return over() || Connection::hasOutstanding() || !hasOutstanding(); }
  bool everActive() const { return everActive_.load(std::memory_order_acquire); }
  uint64_t failovers = 0, failbacks = 0;
  // Under the engine's mutex: when NCCL last asked for it, and whether it got it.
  int64_t calledNs = runNs();
  bool handedOver = false;

 private:
  uint64_t through() const override { return acked_.load(std::memory_order_relaxed); }
  // data path (owner held)
  uint64_t acked() const { return acked_.load(std::memory_order_acquire); }
  bool lost(const Fenced& message) const;
  /// Whether its parts may be claimed now: copies of some of them are kept.
  bool roomFor(const Slicing& cut, size_t size, bool host);
  bool windowFull(size_t size);
  /// All parts of NCCL's message are over with their lanes, and NCCL need not wait for the receiver's word.
  bool complete(const Request& head) const;
  /// The same for what is lacking: asks who can tell.
  void answerForParts(Request& head);
  void release(Request& head);
  /// A switch under way, after which messages are cut in another way: those from its boundary on are not claimed.
  bool cutUnsettled() const { return proposed_ && posted_ >= holdFrom_ && (plan_.cuts() || proposed_->cut.parts > 1); }
  void answerFor(Request& request, bool oldest);
  /// Asks the transport whether the lane has ended, where nothing else would show it.
  void lookForEnd(Lane& lane);
  void lookForEndOf(const Request& request);
  // slots that NCCL lends us (send_credits.cc)
  bool lends(const Request& head) const;
  /// Some slot may have to go out again.
  bool hasSlots() const;
  void passCredits();
  void passOldest();
  void lookAtLent();
  void onDeregister(const void* mr) override;
  bool answeredFor(const Request& request) const;
  /// Messages below this need not go out again. From here to what was released are copies, lent slots, and what the
  /// receiver's kernel has.
  uint64_t safeBelow() const;
  ncclResult_t give(Lane& lane, Request& request) override;
  bool clocked(const Lane& lane) const;
  /// One turn; false: nothing moved.
  bool progress();
  bool progressLane(Lane& lane);
  /// Returns how many messages go out again.
  int64_t applyFenced(const Fenced& message);

  // lanes (send_lanes.cc)
  void requestLane(Path* path);
  void laneReady(const LanePtr& lane);
  void loseLane(const LanePtr& lane, const std::string& cause);
  /// It may replace any: up at both ends, nothing posted on it, its path up and not in doubt.
  bool spare(const LanePtr& lane) const;
  LanePtr idleLane() const;
  /// It may stand by for one that is used: on another path, and on one that would not fail with it if there is any.
  bool standsBy(const LanePtr& lane, const Lane& used) const;
  // what a lane's own data says of it (send_verdict.cc)
  LanePtr stuckLane(int64_t now);
  bool waitEnds(uint64_t acked, int64_t now);
  void judgeLanes(int64_t now);
  void standsStill(const LanePtr& lane, int64_t now);
  void watchLeave(int64_t now);
  bool noLeaveOn(const Lane& lane) const { return leave_.lane == lane.id && leave_.told; }
  bool unproven(const Path& path) const;
  uint64_t confirmedOver(const Path& path) const;
  bool dataPasses(Path& path, int64_t stillNs, int64_t now);
  bool betterElsewhere(const Lane& lane, int64_t patience, int64_t now);
  int64_t patienceNs(int64_t now) const;
  int64_t leastNs(const Lane& lane, size_t bytes) const;
  LanePtr laneInUse() const;
  bool peerAnswers(int64_t now) const;
  int64_t laneLimitNs() const;
  void askPeer(const Lane& lane, int64_t now);
  struct LaneWait {
    uint64_t bytes = 0;   // that the other end's kernel confirmed, at the last look
    int64_t stillNs = 0;  // for which that has been as it is
    int64_t ns = 0;       // for which the network was waited for, since a message last got through
    uint64_t resent = 0;  // what its transport had sent again when that began
    uint32_t lane = kNoLane;
    uint64_t notOver = 0;                         // answers when it was last looked at
    bool lossy = false;                           // packets were sent again meanwhile
    std::map<const Path*, uint64_t> elsewhere{};  // what was confirmed there when it was first looked at
  };
  Path* bestPath(const Path* avoid) const;
  bool opening(const Path* path) const;
  const Path* stalledLane(int64_t now) const;
  int64_t laneMoved(uint64_t acked, int64_t now);
  /// When it last moved, or another connection on the path of its oldest message.
  int64_t movesAt() const;
  /// Something of it got through at `then`: message `number`, or a part of it.
  void carried(uint64_t number, int64_t then);
  /// Every path of the plan has an idle lane that would survive it.
  bool covered(const Lane* without = nullptr) const;
  void keepStandby(int64_t now);
  size_t together(const Path& path) const;
  Path* evener(const Lane& used, int64_t now);
  void prune();
  void refreshWanted(int64_t now);
  void stayAway(uint64_t schedule);
  static std::vector<Share> sharesOf(const PlanStep& step);
  std::vector<Share> current() const { return sharesOf(plan_.newest()); }
  bool atHome() const;
  /// Nothing is under way, and nothing was for long enough that waiting for an answer costs nobody anything.
  bool idle(int64_t now) const { return !hasOutstanding() && !carriedSince(now - kIdleNs) && ackedAt_ < now - kIdleNs; }
  LanePtr laneOn(const Path* path) const;
  bool placeLanes(int64_t now);
  // when nothing is carried (send_hold.cc)
  Hold::Spent spent(int64_t now) const;
  void watchHold(int64_t now);
  void sayHeld();
  void endHold();
  std::string refusedWhere() const;
  /// How messages would best be cut over so many lanes, by what NCCL gives us.
  Slicing wantedCut(size_t lanes) const;
  /// Whether messages go on to be cut as they are.
  bool keepsCut(size_t lanes, int64_t now);
  /// Opens what the wanted plan lacks, and starts a switch once all is there. False: nothing is left to do.
  bool approachWanted(int64_t now);

  // failover and switch (send_control.cc)
  void recover(const std::string& cause);
  void startExchange(const LanePtr& lane);
  /// Why the receiver's count ends the connection; null: it goes on.
  const char* resume(const Fenced& message);
  bool settleSwitch(uint64_t boundary);
  uint64_t ahead() const;
  void startSwitch(std::vector<PlanLane> lanes, const Slicing& cut);
  void failover(const std::vector<LanePtr>& lanes, const std::string& cause);
  void countFailover();
  /// The plan may come to need it, or the receiver's already does.
  bool inUse(const LanePtr& lane) const;
  void maintain(int64_t now);
  void repeat(int64_t now);
  Freeze freeze() const;
  Switch proposal() const;

  const uint64_t listen_;
  const uint8_t homeDev_, remoteHomeDev_;
  bool welcomed_ = false;
  std::atomic<bool> everActive_{false};
  alignas(64) std::atomic<uint64_t> acked_{0};
  std::atomic<uint64_t> released_{0};  // messages below this were reported done to NCCL; the engine only looks
  uint64_t holdFrom_ = UINT64_MAX;     // during a switch: messages from here wait for the answer
  KeptMessages kept_;
  Load load_;  // what NCCL gives us
  SlotCredits credits_;
  uint64_t toldFrom_ = 0;  // the first part of the message that NCCL was told of last
  bool toldLent_ = false;  // and whether its slot is lent
  LentLooks lentLooks_;
  bool drives_ = false;  // copies go out again that NCCL no longer asks for: the engine does
  bool lingers_ = false;
  uint32_t lanesMade_ = 0;
  int lateLanes_ = 0;                 // that could not be made in time, since it was last active
  LanePtr target_;                    // of the exchange under way
  std::optional<PlanStep> proposed_;  // by a Switch that is not answered; a Freeze settles it too
  uint32_t proposedEpoch_ = 0;
  int64_t switchSince_ = 0;
  int64_t nextSwitch_ = 0, switchPause_ = 0;  // after one that nobody answered
  uint64_t leaveFrom_ = 0;                    // an idle one asks its old steps to end once so much is posted
  const Path* avoid_ = nullptr;               // no lane could be made on it just now
  std::string cause_;
  std::string lostBy_;                                  // why it last left Active
  std::string failingOver_;                             // the cause of a failover that does not count yet
  static constexpr int64_t kFirstRepeatNs = msToNs(4);  // doubled with every repeat
  int64_t nextRepeat_ = 0, repeatAfter_ = 0;
  int64_t nextStandby_ = 0, nextEven_ = 0, nextMaintain_ = 0;
  int64_t nextTry_ = 0;        // of any lane that nothing waits for, after one was lost
  std::vector<Share> wanted_;  // by the version of the peer's plans it was made for
  uint32_t wantedVersion_ = 0;
  bool whole_ = false;  // it goes whole over another path than home, by turns
  const ScheduleConnection madeFor_;
  SendWindow window_;  // of one that is made for schedules alone
  int64_t lookedAtWindow_ = 0;
  uint64_t awayUnder_ = 0;   // of one: the schedule under which its home was not well
  std::vector<Share> away_;  // where it was then
  CutChange cutChange_;
  int64_t wantedSince_ = 0;
  static constexpr int64_t kCarriesNs = msToNs(2000);  // a connection idle for longer is no demand
  void noteCarried(int64_t at);
  int64_t lastCarried_ = 0;
  int64_t firstCarried_ = 0;  // 0: never, or for long
  Hold hold_;
  static constexpr int64_t kStallNs = msToNs(8), kIdleNs = msToNs(10);
  uint64_t seenAcked_ = 0;
  int64_t ackedAt_ = 0;       // when acked_ last grew
  int64_t lastLook_ = 0;      // at the lane itself
  int64_t lookedForEnd_ = 0;  // NCCL's thread's
  int64_t nextAsk_ = 0;
  bool asked_ = false;  // and not yet answered
  int64_t lastMove_ = 0;
  int64_t nextPlacing_ = 0;
  int placings_ = 0;
  LaneWait wait_;
  /// The message for which the receiver's leave to send is lacking (RDMA), in so many looks in a row.
  struct LeaveWait {
    uint64_t number = 0, refusals = 0;
    uint32_t lane = kNoLane;
    int64_t looks = 0;
    bool told = false;  // the receiver was
  };
  LeaveWait leave_;
  int64_t lastLeaveLook_ = 0;
  uint64_t refusals_ = 0;  // messages that a lane did not take
  uint64_t notOver_ = 0;   // answers of a lane that its oldest message is not over
  uint64_t waitAcked_ = 0;
  int64_t lastVerdictLook_ = 0, lastAskedPeer_ = 0;
  int64_t slowestNs_ = 0, slowestAt_ = 0;  // the longest such wait of a lane that was well
  int verdicts_ = 0;                       // in a row, without a message in between
};

}  // namespace r2cc
