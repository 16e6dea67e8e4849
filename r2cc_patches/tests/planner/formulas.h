// Further formulas of docs/internals/schedules.md, in the words of planner/cost/formulas.h: plans are compared with
// them.
#pragma once

#include <algorithm>

#include "planner/cost/formulas.h"

namespace r2cc::planner {

/// One ring, the straggler's paths balanced over what it has left.
inline double balanceTime(int n, double x) { return ringLoad(n) / (1 - x); }
/// The traffic of `lost` NICs on one other NIC, as live migration without balance has it.
inline double backupTime(int n, int lost) { return ringLoad(n) * (1 + lost); }

/// The published schedule, phase by phase: global ring, partial ring of the healthy, the straggler's share of the
/// latter.
struct PublishedTimes {
  double global = 0;
  double partial = 0;
  double after = 0;
  double whole() const { return std::max(global, partial) + after; }
};
inline PublishedTimes publishedTimes(int n, double x, double y, double pieces) {
  return {ringLoad(n) * (1 - y) / (1 - x), y > 0 ? ringLoad(n - 1) * y / x : 0, (1 + 1 / pieces) * y / (1 - x)};
}
/// With y = x and infinitely many pieces.
inline double publishedLimit(int n, double x) { return ringLoad(n) * (1 + n * x / (2.0 * (n - 1) * (1 - x))); }
/// What the straggler receives, relative to balance.
inline double publishedReceived(int n, double x) { return (ringLoad(n) * (1 - x) + x) / ringLoad(n); }

/// No schedule is faster: l = 1 / (1 - x).
inline double lowerBound(int p, double x) { return std::max(1 / (1 - x), 2.0 * (p - 1) / ((p - 1) + (1 - x))); }

/// One chain with the straggler at its tail and one fixed head, beside a ring over n ranks.
inline Beside fixedHeadTime(int n, double x) {
  return fastestBeside(1 / (1 - x), ringLoad(n) / (1 - x), 2, ringLoad(n));
}

}  // namespace r2cc::planner
