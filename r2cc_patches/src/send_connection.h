// The sending end: posts messages to the plan's lanes, and coordinates every change of the plan, so that a double
// detection can never start two different failovers.
//
//   failover  a lane of the plan failed: fence, find a fresh lane, Freeze -> Fenced, replay what the receiver lacks
//   switch    the home path is back: Switch -> Switched agrees a message number; nothing is fenced, nothing stops
#pragma once

#include "connection.h"

namespace r2cc {

class SendConnection final : public Connection {
 public:
  /// `home`: the devices NCCL chose. The path is known once the receiver has said which NICs it has.
  SendConnection(const Services& services, Peer& peer, uint64_t id, void* ctx, uint64_t listen, uint8_t homeDev,
                 uint8_t remoteHomeDev, const std::vector<NicAddress>& ourNics);
  ~SendConnection() override;

  // NCCL's side
  ncclResult_t isend(void* data, size_t size, int tag, void* mr, void* profiler, void** request);
  ncclResult_t test(Request& request, int* done, int* size) override;

  // The engine's side
  void onWelcome(const Welcome& message);
  void onLaneHandle(const LaneHandle& message);
  void onLaneUp(const LaneUp& message);
  void onLaneMade(const LanePtr& lane, bool ok) override;
  void onSuspect(const Suspect& message);
  void onFenced(const Fenced& message);
  void onSwitched(const Switched& message);
  void onAck(uint64_t delivered);
  void onBye(uint64_t delivered);
  void onPathDown(const Path* path, const std::string& cause);
  void tick(int64_t now);
  Bye bye() const override { return {id, 1, 0}; }
  void ask() override { peer.tellEverywhere(CloseLane{id, kNoLane}); }

  /// The path whose traffic stands still, or null: messages are out and none was acknowledged for kStallNs, or the
  /// lane to go on with does not come up.
  const Path* stalledPath(int64_t now);
  bool everActive() const { return everActive_.load(std::memory_order_acquire); }
  uint64_t failovers = 0, failbacks = 0;

 private:
  uint64_t through() const override { return acked_.load(std::memory_order_relaxed); }
  // data path (owner held)
  void pump();
  void progress();
  void applyFenced(const Fenced& message);

  // control
  void requestLane(Path* path);
  void laneReady(const LanePtr& lane);
  void recover(const std::string& cause);
  void startExchange(const LanePtr& lane);
  /// False when the receiver's count cannot be true.
  bool resume(const Fenced& message);
  void startSwitch(const LanePtr& lane);
  void failover(const LanePtr& lane, const std::string& cause);
  void loseLane(const LanePtr& lane, const std::string& cause);
  void maintain(int64_t now);
  void repeat(int64_t now);
  void prune();
  Path* bestPath(const Path* avoid) const;
  LanePtr idleLane(const Path* avoid) const;
  bool opening(const Path* path) const;
  uint32_t oldestLane() const;
  const Path* stalledLane(int64_t now) const;

  const uint64_t listen_;
  const uint8_t homeDev_, remoteHomeDev_;
  const std::vector<NicAddress> ourNics_;
  bool welcomed_ = false;
  std::atomic<bool> everActive_{false};
  std::atomic<uint64_t> acked_{0};
  std::atomic<uint64_t> released_{0};  // messages below this were reported done to NCCL; the engine only looks
  uint64_t holdFrom_ = UINT64_MAX;     // during a switch: messages from here wait for the answer
  uint32_t lanesMade_ = 0;
  LanePtr target_;  // of the exchange or switch under way
  bool switching_ = false;
  int64_t switchSince_ = 0;
  const Path* avoid_ = nullptr;  // no lane could be made on it just now
  std::string cause_;
  int64_t nextRepeat_ = 0, repeatAfter_ = 0;
  int64_t nextStandby_ = 0;
  int64_t holdingSince_ = 0;
  uint64_t seenAcked_ = 0;
  int64_t lastMove_ = 0;
};

}  // namespace r2cc
