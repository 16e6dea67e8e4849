// The operations of the proxies of one communicator: what one connection of one channel moves for one collective.
//
// Only one thread, that of the proxies, begins and ends them and says what they moved; late events may come from any.
// Transports without steps (shared memory, CollNet) begin operations that they never stop: one that never moved
// anything may be taken by another at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tasks.h"

namespace r2cc::progress {

struct Op {
  enum class State : uint8_t { kFree, kWaits, kMoves };
  std::atomic<unsigned> turn{0};
  std::atomic<State> state{State::kFree};
  std::atomic<bool> sends{false}, hasTask{false}, hasBase{false};
  std::atomic<Tasks::Ref> task{};
  std::atomic<uint64_t> counted{0};  // of versions that say how much an operation has moved so far
  std::atomic<unsigned> sending{0};  // steps that the network has and has not confirmed
};
static_assert(std::atomic<Tasks::Ref>::is_always_lock_free);

class Ops {
 public:
  static constexpr unsigned kMost = 8192;
  /// Nothing when all places near the next are taken by what moves.
  Op* take() {
    for (unsigned tries = 0; tries < kTries; tries++) {
      Op& op = ops_[next_.fetch_add(1, std::memory_order_relaxed) % kMost];
      if (op.state.load(std::memory_order_relaxed) == Op::State::kMoves) continue;
      op.turn.fetch_add(1, std::memory_order_relaxed);
      return &op;
    }
    return nullptr;
  }
  unsigned slot(const Op& op) const { return static_cast<unsigned>(&op - ops_.data()); }
  /// Nothing when the place has another turn (`turn` may be its low bits).
  Op* find(unsigned slot, unsigned turn, unsigned mask) {
    Op& op = ops_[slot % kMost];
    return ((op.turn.load(std::memory_order_relaxed) ^ turn) & mask) == 0 ? &op : nullptr;
  }
  void clear() {
    for (Op& op : ops_) {
      op.state.store(Op::State::kFree, std::memory_order_relaxed);
      op.turn.fetch_add(1, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr unsigned kTries = 256;
  std::array<Op, kMost> ops_;
  std::atomic<unsigned> next_{0};
};

}  // namespace r2cc::progress
