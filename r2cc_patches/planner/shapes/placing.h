// Every cycle can lie on several channels, each with a home NIC and a cut of its own, or unused. On all homes alike,
// whole nodes would carry more on the rails that a degraded node still has than on the one it lost (rails.h). Which
// channels are used, and where each is cut, evens that out. What is used carries the same: connections that meet on a
// NIC get the same rate, and one with more would be left over at the end.
#pragma once

#include <vector>

#include "planner/planner.h"
#include "planner/shapes/cycles.h"

namespace r2cc::planner {

struct PlacedCut {
  size_t cycle = 0;
  size_t head = 0;         // as Cut's
  std::vector<int> homes;  // places in `homes`; none twice among all cuts of a cycle
};

struct Placing {
  std::vector<PlacedCut> cuts;  // each carries homes.size() of the chains' share over that of all cuts
  double usPerByte = 0;         // of the busiest NIC
};

/// Begins with `cuts` on all homes and makes that better. `ringLoad` as cutCycles', of a ring along `ring`.
Placing placed(const std::vector<Node>& nodes, const std::vector<std::vector<int>>& cycles,
               const std::vector<int>& homes, const Cuts& cuts, const std::vector<int>& ring, double ringLoad);

}  // namespace r2cc::planner
