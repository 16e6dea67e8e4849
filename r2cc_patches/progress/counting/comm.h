// What one communicator of NCCL has done so far. Nothing here locks, allocates or waits: NCCL's threads call it at
// every collective and at every step of its proxies.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "longest.h"
#include "ops.h"
#include "tasks.h"

namespace r2cc::progress {

/// How NCCL names a communicator. Versions before 4 of the interface say no sizes: those are 0.
struct Identity {
  uint64_t hash = 0;
  std::string name;
  int rank = 0, ranks = 0, nodes = 0;
};

struct Totals {
  uint64_t collectives = 0;  // launched, point-to-point calls too
  uint64_t ended = 0;
  uint64_t bytes = 0;     // given to the network and received from it by this rank's proxies
  uint64_t launched = 0;  // bytes of the buffers of what was launched

  bool operator==(const Totals& other) const {
    return collectives == other.collectives && ended == other.ended && bytes == other.bytes &&
           launched == other.launched;
  }
  bool operator!=(const Totals& other) const { return !(*this == other); }
};

/// The longest times without a change since the last sample.
struct Stills {
  int64_t stillUs = 0;  // nothing was launched and nothing moved
  Stretch pending;      // nothing moved, with an operation under way: its GPU, its peer or the network kept it waiting
  Stretch sending;      // nothing moved, with data given to the network that it had not confirmed
};

class Comm {
 public:
  void begin(int64_t nowNs);
  /// How many hosts its ranks are on; 0: nobody said.
  void setNodes(int nodes) { nodes_ = nodes; }

  Tasks::Ref launch(uint64_t bytes, int64_t nowNs);
  void launched(Tasks::Ref task, int64_t nowNs);

  /// Nothing when there is no place; what it moves is not counted then. `task` may be none.
  Op* opBegins(const Tasks::Ref* task, bool sends);
  void stepBegins(Op& op);
  /// The network has been given (a send) or has brought (a receive) `bytes`.
  void stepMoves(Op& op, uint64_t bytes, int64_t nowNs);
  void stepEnds(Op& op, int64_t nowNs);
  /// For versions that count by operation: `bytes` is what its connection has moved, from whenever on.
  void opHasMoved(Op& op, uint64_t bytes);
  void opEnds(Op& op, int64_t nowNs);

  /// Ends what needs no network: see Tasks.
  void settle(int64_t nowNs, bool last);
  Totals totals() const;
  /// True when something is under way.
  bool pending() const { return moving_.load(std::memory_order_acquire) > 0; }
  Stills stills(int64_t nowNs);

  Op* op(unsigned slot, unsigned turn);
  unsigned slotOf(const Op& op) const { return ops_.slot(op); }

 private:
  static constexpr int64_t kGraceNs = 50'000'000;
  void moves(int64_t nowNs);
  std::atomic<int> nodes_{0};
  std::atomic<bool> networked_{false};
  Tasks tasks_;
  Ops ops_;
  alignas(64) std::atomic<uint64_t> bytes_{0};
  std::atomic<int> moving_{0}, sending_{0};  // operations that have begun to move; steps that the network has
  std::atomic<int64_t> lastMoveNs_{0}, sendingSinceNs_{0};
  Longest still_, pendingStill_, sendingStill_;
  alignas(64) std::atomic<uint64_t> launchedBytes_{0};
  std::atomic<int64_t> lastLaunchNs_{0};
};

}  // namespace r2cc::progress
