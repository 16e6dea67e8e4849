// Trees on channels that each have a home NIC (placing.h says why that matters). Unlike a chain, which is a cut of its
// channel's cycle, a tree can have any order on any channel: its connections are made for it.
#pragma once

#include <vector>

#include "planner/planner.h"

namespace r2cc::planner {

struct PlacedTree {
  int home = 0;            // a place in the nodes' lists of NICs
  std::vector<int> slots;  // nodes by slot
};

/// Begins with `trees`, all of the same share, and lets nodes change places in them as long as the busiest NIC gets
/// less to do. Returns that one's time, in us a byte. Large clusters stay as they are.
double placeTrees(const std::vector<Node>& nodes, std::vector<PlacedTree>& trees);

}  // namespace r2cc::planner
