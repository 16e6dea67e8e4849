// The receiving end: the truth about what arrived. Posts receives to the plan's lanes in ascending order, counts what
// is complete, acknowledges it, and answers the sender's handshakes. It never starts one: it reports a suspicion.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "data/ack_rule.h"
#include "data/connection.h"

namespace r2cc {

class RecvConnection final : public Connection {
 public:
  RecvConnection(const Services& services, Peer& peer, uint64_t id, void* ctx, const Path* home);
  ~RecvConnection() override;

  // NCCL's side
  ncclResult_t irecv(void* data, size_t size, int tag, void* mr, void* profiler, void** request);
  ncclResult_t test(Request& request, int* done, int* size) override;
  ncclResult_t iflush(int n, void** data, int* sizes, void** mrs, void** request);

  // The engine's side
  void onOpenLane(const OpenLane& message);
  void onCloseLane(const CloseLane& message);
  void onLaneMade(const LanePtr& lane, bool ok) override;
  void onPrepared(const LanePtr& lane, bool ok) override;
  void onAllFenced() override;
  void onFreeze(const Freeze& message);
  void onSwitch(const Switch& message);
  void onNoLeave(const NoLeave& message);
  void onBye(const Bye& message);
  void tick(int64_t now);
  /// Nothing that was asked for will come over any lane of the plan: what a process sent before its end may still be on
  /// its way.
  bool lanesEnded();
  /// What was asked for lies on a lane that ended, and a process that ended sends nothing again.
  bool lacksForGood();
  void ask() override { peer.tellEverywhere(Suspect{id, epoch_, kNoLane}); }

  /// Messages below this are complete. Any thread.
  uint64_t delivered() const { return delivered_.count.load(std::memory_order_acquire); }
  /// For Peer::receives.
  Delivered& forAcks() { return delivered_; }

 private:
  uint64_t through() const override { return delivered(); }
  ncclResult_t give(Lane& lane, Request& request) override;
  void progress();
  bool complete(const Request& head) const;
  /// Takes what is complete; true when anything was.
  bool progressLane(Lane& lane);
  /// Takes all that will ever come over a lane that is given up (invariant 3: drain, then fence, then count).
  void drainLane(Lane& lane);
  void takeDrained(Lane& lane);
  /// The same, fence included, where the transport takes its time: see fencing().
  void drainApart(const LanePtr& lane);
  void flushThenDrain(const LanePtr& lane, int64_t begun);
  std::vector<void*> drained(Lane& lane);
  void answerFreeze();
  void end(const Bye& message);
  // (recv_freeze.cc)
  void rescue(Lane& lane);
  std::optional<size_t> readEarly(Lane& lane);
  bool takeRescued(Request& request);
  AckRule::Sender senderOf(const Request& request) const;
  void flushBeforeDrain(Lane& lane);
  bool flushSome(Lane& lane);
  enum class Outcome { Complete, Waits, Broken };
  Outcome take(Lane& lane, Request& request);
  Outcome takeAll(Lane& lane, Request& request);
  Outcome flush(Lane& lane, Request& request);
  bool needsFlush(const Request& request) const;
  /// A flush that NCCL asked for: of each part that no flush of ours has made visible, one after the other.
  struct OwnFlush : Request {
    struct Written {
      uint32_t lane;
      void* data;
      size_t size;
    };
    std::vector<Written> left;
  };
  Outcome flushNext(OwnFlush& flush);
  ncclResult_t testFlush(OwnFlush& request, int* done);
  ncclResult_t flushLost() const;
  void finished(Request& request);
  void ackIfDue();
  bool waitsForOthers(int waiting);
  void uncount();
  void forget(const Freeze& message);
  Fenced count(uint8_t laneUsable) const;
  bool lostCompleted(uint64_t completed) const;
  LaneUp laneUp(const Lane& lane) const { return {id, lane.id, static_cast<uint8_t>(lane.placed ? 1 : 0)}; }
  void mentionIdle(int64_t now);
  LanePtr usableLane(uint32_t lane) const;
  LanePtr listenOn(Path& path, uint32_t lane);
  const Path* ackPath() const;
  void answer();

  Delivered delivered_{id};
  uint64_t whole_ = 0;  // messages below are here with all parts of NCCL's messages
  AckRule ackRule_;
  /// What lay in the socket of a lane that was given up, and NCCL has not asked for yet; by number.
  struct Rescued {
    std::unique_ptr<uint8_t[]> bytes;
    size_t size = 0;
  };
  std::map<uint64_t, Rescued> rescued_;
  std::unique_ptr<uint8_t[]> early_;  // the next of them: a lane may write there until it is fenced
  size_t largest_ = kKnownBytes;      // message so far
  bool uncounted_ = false;            // what NCCL still waits for is no longer in Peer::receiving
  int64_t lastAnswer_ = 0;
  bool flushes_ = false;                 // this NCCL wants GPU memory flushed: we do it before a message counts
  bool told_ = false, unasked_ = false;  // of a message with bytes; of another one, with no flush between: see flushes_
  OwnFlush flushRequests_[NCCL_NET_MAX_REQUESTS];  // one for each message that may be here when NCCL first asks
  Fenced lastFenced_{};                            // repeated as it was: the sender replays from this very count
  Switched lastSwitched_{};
  std::optional<Freeze> freeze_;  // not yet answered: its lanes are being fenced
  std::optional<Bye> farewell_;   // so are all
  NoLeave noLeave_{};             // the last that came of a message whose leave was given, and when that began
  int64_t noLeaveSince_ = 0;
  int64_t lastSuspect_ = 0, lastMention_ = runNs();
};

}  // namespace r2cc
