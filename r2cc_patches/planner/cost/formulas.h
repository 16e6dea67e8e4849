// What is known about AllReduce with one straggler, as formulas. Times are in D/B: D the message, B a healthy node's
// bandwidth one way. p nodes, n ranks in the ring, x the share of its bandwidth that the straggler lost (0 <= x < 1).
// docs/internals/schedules.md derives them; tests/planner/formulas.h has more.
#pragma once

#include <algorithm>

namespace r2cc::planner {

constexpr double kBytesPerUsOfGBps = 1000;

/// What every node of a ring over n ranks sends and receives.
inline double ringLoad(int n) { return 2.0 * (n - 1) / n; }

struct Beside {
  double time = 0;
  double ringShare = 0;
};

/// The ring's share y in [0, 1] that makes the slower of two straight lines in y fastest. Each line is its value at y =
/// 0 (chains alone) and at y = 1 (the ring alone).
inline Beside fastestBeside(double straggler0, double straggler1, double healthy0, double healthy1) {
  const auto at = [&](double y) {
    return std::max(straggler0 + y * (straggler1 - straggler0), healthy0 + y * (healthy1 - healthy0));
  };
  Beside best{at(0), 0};
  if (at(1) < best.time) best = {at(1), 1};
  const double slope = (straggler1 - straggler0) - (healthy1 - healthy0);
  if (slope == 0) return best;
  const double y = std::clamp((healthy0 - straggler0) / slope, 0.0, 1.0);
  return at(y) < best.time ? Beside{at(y), y} : best;
}

/// Chains that take turns with their heads (every healthy node is one equally often), beside a ring; one rank a node.
/// OptCC with ring work in its idle time is the same sum.
inline Beside rotatingHeadsTime(int p, double x) {
  return fastestBeside(1 / (1 - x), ringLoad(p) / (1 - x), (2.0 * p - 3) / (p - 1), ringLoad(p));
}

}  // namespace r2cc::planner
