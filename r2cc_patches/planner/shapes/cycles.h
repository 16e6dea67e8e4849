// Chains out of connections that were made before anybody knew which node would be degraded. Each cycle of nodes is
// connected in both directions; cut anywhere, it is a chain whose ends are the two nodes at the cut. Which cut of each
// cycle, and how much of a message on each, is decided when bandwidths are known.
#pragma once

#include <cstddef>
#include <vector>

namespace r2cc::planner {

/// `count` cyclic orders of nodes 0 .. nodes-1 in which each node gets as many different neighbours as can be, and none
/// much more often than another. The same everywhere. nodes >= 3.
std::vector<std::vector<int>> cycles(int nodes, int count);

/// Of a cycle's channel number `which`, whose NICs are `homes`: its number among all channels of all cycles that are at
/// home on the same NIC. Where that is gone, they may go over the others in turn (Plan::inTurn).
int turnOf(size_t cycle, size_t which, const std::vector<int>& homes);

constexpr double kWorthARing = 1.02;  // a ring beside the chains is not worth its channels for less

struct Cut {
  size_t cycle = 0;
  size_t head = 0;  // place in the cycle of the chain's first node; the one before it is its last
  double share = 0;
};

struct Cuts {
  std::vector<Cut> cuts;  // one a cycle at most, none without a share
  double ringShare = 0;   // of a ring beside them
  double time = 0;        // of the busiest node, in units of message / bandwidth 1
};

/// The cuts and shares with the least time, for nodes with these bandwidths. A node in the ring carries `ringLoad`
/// times its share each way, an end of a chain 1, any other node 2. Without `ringLoad`: no ring.
Cuts cutCycles(const std::vector<std::vector<int>>& cycles, const std::vector<double>& bandwidths);
Cuts cutCycles(const std::vector<std::vector<int>>& cycles, const std::vector<double>& bandwidths, double ringLoad);

}  // namespace r2cc::planner
