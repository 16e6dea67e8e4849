#include "planner/cost/formulas.h"

#include <algorithm>
#include <cmath>

namespace r2cc::planner {
namespace {

/// The ring's share y in [0, 1] that makes the slower of two straight lines in y fastest. Each line is its value at y =
/// 0 (chains alone) and at y = 1 (the ring alone).
Beside fastestBeside(double straggler0, double straggler1, double healthy0, double healthy1) {
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

}  // namespace

double backupTime(int n, int lost) { return ringLoad(n) * (1 + lost); }

PublishedTimes publishedTimes(int n, double x, double y, double pieces) {
  PublishedTimes times;
  times.global = ringLoad(n) * (1 - y) / (1 - x);
  times.partial = y > 0 ? ringLoad(n - 1) * y / x : 0;
  times.after = (1 + 1 / pieces) * y / (1 - x);
  return times;
}

double publishedLimit(int n, double x) { return ringLoad(n) * (1 + n * x / (2.0 * (n - 1) * (1 - x))); }

double publishedReceived(int n, double x) { return (ringLoad(n) * (1 - x) + x) / ringLoad(n); }

double lowerBound(int p, double x) { return std::max(1 / (1 - x), 2.0 * (p - 1) / ((p - 1) + (1 - x))); }

Beside fixedHeadTime(int n, double x) { return fastestBeside(1 / (1 - x), ringLoad(n) / (1 - x), 2, ringLoad(n)); }

Beside rotatingHeadsTime(int p, double x) {
  return fastestBeside(1 / (1 - x), ringLoad(p) / (1 - x), (2.0 * p - 3) / (p - 1), ringLoad(p));
}

}  // namespace r2cc::planner
