// The collectives and point-to-point calls of one communicator that were launched and have not ended.
//
// NCCL says when it has launched one, and what the proxies do for it, but not how many operations they will have. So
// one ends when those that moved anything have stopped; one that has none (its peers are in the same host) ends when it
// was launched, which the communicator decides (Comm::settle).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace r2cc::progress {

class Tasks {
 public:
  static constexpr unsigned kMost = 4096;
  struct Ref {
    unsigned slot = 0, turn = 0;
  };

  /// A new one. Where kMost have not ended, the oldest is taken for ended.
  Ref begin();
  /// NCCL has launched it. False: nothing moved for it yet.
  bool launched(Ref task, int64_t nowNs);
  /// An operation of it moves (1), or has stopped (-1). Nothing when it is long over.
  void moving(Ref task, int by);
  void end(Ref task);
  /// Ends what has nothing that moves: what was launched before the last that ended by itself, and with `idle` what was
  /// launched before `untilNs`.
  void settle(bool idle, int64_t untilNs);

  uint64_t started() const { return started_.load(std::memory_order_relaxed); }
  /// What is asked for after it, `started` too, is no older.
  uint64_t ended() const { return ended_.load(std::memory_order_acquire); }
  void clear();

 private:
  // One word a task, so that every change is one step: turn, how many operations move, flags.
  static constexpr uint64_t kLaunched = 1, kMoved = 2, kEnded = 4, kOne = 8,
                            kCountMask = ((uint64_t{1} << 29) - 1) * kOne;
  static constexpr unsigned kTurnShift = 32;
  struct Task {
    std::atomic<uint64_t> word{kEnded};
    std::atomic<int64_t> launchedNs{0};
  };
  static Ref refOf(uint64_t number) {
    return {static_cast<unsigned>(number % kMost), static_cast<unsigned>(number / kMost)};
  }
  static bool over(uint64_t word) {
    return (word & kLaunched) != 0 && (word & kMoved) != 0 && (word & kCountMask) == 0;
  }
  /// The word after `change`; nothing when the place has another turn.
  template <typename Change>
  std::optional<uint64_t> change(Ref task, const Change& change);
  void endedByItself(Ref task);

  std::array<Task, kMost> tasks_;
  std::atomic<uint64_t> started_{0}, ended_{0};
  std::atomic<uint64_t> movedUpTo_{0};  // 1 + the latest that ended because its operations stopped
  uint64_t settled_ = 0;                // all before it have ended; of whoever settles
};

}  // namespace r2cc::progress
