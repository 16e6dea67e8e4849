// Completions of one queue that have come and are not handed out yet. Those of a queue pair stay in their order.
#pragma once

#include <ibvcore.h>
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "faults/verbs/active_rule.h"

namespace r2cc::faults {

/// Only what was well says whether it was received.
enum class Side { Send, Receive, Unknown };

class Held {
 public:
  bool empty() const { return waiting_.empty(); }

  void push(const ibv_wc& completion, Side side, int64_t dueNs, std::shared_ptr<ActiveRule> rule) {
    waiting_.push_back({completion, side, dueNs, std::move(rule)});
  }

  /// Holds it too where it may not overtake one that waits.
  bool queueBehind(const ibv_wc& completion, Side side) {
    const auto before = [&](const Waiting& one) { return precedes(one, completion.qp_num, side); };
    if (std::none_of(waiting_.begin(), waiting_.end(), before)) return false;
    push(completion, side, 0, nullptr);
    return true;
  }

  /// Hands out what is due, or held by a rule that is over; how many.
  int take(ibv_wc* out, int room, int64_t nowNs) {
    int given = 0;
    for (auto it = waiting_.begin(); it != waiting_.end() && given < room;) {
      const auto before = [&](const Waiting& one) { return precedes(one, it->completion.qp_num, it->side); };
      const bool due = it->dueNs <= nowNs || (it->rule && it->rule->over);
      const bool free = due && std::none_of(waiting_.begin(), it, before);
      if (free) out[given++] = it->completion;
      it = free ? waiting_.erase(it) : std::next(it);
    }
    return given;
  }

  /// Of a queue pair that is destroyed or reset.
  void drop(uint32_t qp) {
    const auto its = [qp](const Waiting& one) { return one.completion.qp_num == qp; };
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), its), waiting_.end());
  }

 private:
  struct Waiting {
    ibv_wc completion;
    Side side;
    int64_t dueNs;
    std::shared_ptr<ActiveRule> rule;
  };

  static bool precedes(const Waiting& one, uint32_t qp, Side side) {
    return one.completion.qp_num == qp && (one.side == side || one.side == Side::Unknown || side == Side::Unknown);
  }

  std::deque<Waiting> waiting_;
};

}  // namespace r2cc::faults
