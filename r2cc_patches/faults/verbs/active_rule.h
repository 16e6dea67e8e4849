// A verbs rule that is in force, and what it hit: read by the watcher, counted by the calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "faults/answers.h"
#include "faults/rules/verbs_rule.h"

namespace r2cc::faults {

struct ActiveRule {
  explicit ActiveRule(VerbsRule words, std::shared_ptr<const Answers> to = nullptr)
      : rule(std::move(words)), answers(std::move(to)) {}

  const VerbsRule rule;
  const std::shared_ptr<const Answers> answers;  // null: nobody wants any
  std::atomic<uint64_t> seen{0}, hits{0};
  std::atomic<int64_t> hitNs{0};
  std::atomic<bool> over{false};  // what it holds back may go

  /// Whether it strikes now, which is counted. The first is answered before it strikes: the program may end by it.
  bool strikes(int64_t nowNs) {
    if (seen.fetch_add(1) < rule.skip) return false;
    const uint64_t before = hits.fetch_add(1);
    if (before >= rule.times && rule.times != 0) return hits--, false;
    hitNs = nowNs;
    if (before == 0 && answers != nullptr) answers->hit(rule.device, 1, nowNs);
    return true;
  }
};

using ActiveRules = std::vector<std::shared_ptr<ActiveRule>>;

}  // namespace r2cc::faults
