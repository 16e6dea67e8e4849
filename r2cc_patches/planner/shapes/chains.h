// Chains with allotted ends: an end of a chain carries the message once each way, an inner node twice, so slow nodes
// are made ends more often. docs/internals/schedules.md derives it.
#pragma once

#include <vector>

#include "planner/cost/cluster.h"

namespace r2cc::planner {

struct ChainShare {
  double share = 0;
  int head = -1;
  int tail = -1;
};

/// A split of the message over one ring (0: none) and chains. `time` is the slowest node's, in bytes / bandwidth.
struct Allotment {
  double time = 0;
  double ringShare = 0;
  std::vector<ChainShare> chains;
};

/// Splits into at most `parts` parts, the fastest of each shape that there may be. Needs two nodes.
std::vector<Allotment> allotEnds(const Cluster& cluster, int parts);
/// One chain between the two slowest nodes; also beside a ring if there may be two parts.
std::vector<Allotment> fixedEnds(const Cluster& cluster, int parts);

}  // namespace r2cc::planner
