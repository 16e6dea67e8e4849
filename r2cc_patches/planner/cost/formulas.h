// What is known about AllReduce with one straggler, as formulas. Times are in D/B: D the message, B a healthy node's
// bandwidth one way. p nodes, n ranks in the ring, x the share of its bandwidth that the straggler lost (0 <= x < 1).
// docs/internals/schedules.md derives them; the tests compare plans with them.
#pragma once

namespace r2cc::planner {

/// What every node of a ring over n ranks sends and receives.
inline double ringLoad(int n) { return 2.0 * (n - 1) / n; }
/// One ring, the straggler's paths balanced over what it has left.
inline double balanceTime(int n, double x) { return ringLoad(n) / (1 - x); }
/// The traffic of `lost` NICs on one other NIC, as live migration without balance has it.
double backupTime(int n, int lost);

/// The published schedule, phase by phase: global ring, partial ring of the healthy, the straggler's share of the
/// latter.
struct PublishedTimes {
  double global = 0;
  double partial = 0;
  double after = 0;
  double whole() const { return (global > partial ? global : partial) + after; }
};
PublishedTimes publishedTimes(int n, double x, double y, double pieces);
/// With y = x and infinitely many pieces.
double publishedLimit(int n, double x);
/// What the straggler receives, relative to balance.
double publishedReceived(int n, double x);

/// No schedule is faster: l = 1 / (1 - x).
double lowerBound(int p, double x);

struct Beside {
  double time = 0;
  double ringShare = 0;
};
/// One chain with the straggler at its tail and one fixed head, beside a ring over n ranks.
Beside fixedHeadTime(int n, double x);
/// Chains that take turns with their heads (every healthy node is one equally often), beside a ring; one rank a node.
/// OptCC with ring work in its idle time is the same sum.
Beside rotatingHeadsTime(int p, double x);

}  // namespace r2cc::planner
