// A verbs rule that is in force, and what it hit: read by the watcher, counted by the calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "faults/rules/verbs_rule.h"

namespace r2cc::faults {

struct ActiveRule {
  explicit ActiveRule(VerbsRule words) : rule(std::move(words)) {}

  const VerbsRule rule;
  std::atomic<uint64_t> seen{0}, hits{0};
  std::atomic<int64_t> hitNs{0};
  std::atomic<bool> over{false};  // what it holds back may go

  /// Whether it strikes now, which is counted.
  bool strikes(int64_t nowNs) {
    if (seen.fetch_add(1) < rule.skip) return false;
    if (hits.fetch_add(1) >= rule.times && rule.times != 0) return hits--, false;
    hitNs = nowNs;
    return true;
  }
};

using ActiveRules = std::vector<std::shared_ptr<ActiveRule>>;

}  // namespace r2cc::faults
