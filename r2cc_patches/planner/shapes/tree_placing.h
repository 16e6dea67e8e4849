// Trees on channels that each have a home NIC (placing.h says why that matters). Unlike a chain, which is a cut of its
// channel's cycle, a tree can have any order on any channel: its connections are made for it.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/planner.h"

namespace r2cc::planner {

struct PlacedTree {
  int home = 0;            // a place in the nodes' lists of NICs
  std::vector<int> slots;  // nodes by slot
  bool used = true;
};

/// All trees, or as many of them as suit each other: a tree whose home few nodes have left goes over other NICs.
enum class Use : uint8_t { All, Some };

/// Begins with `trees`, all of the same share. Lets nodes change places in them, and may leave trees out, as long as
/// the busiest NIC gets less to do. Returns that one's time, in us a byte. Large clusters stay as they are.
double placeTrees(const std::vector<Node>& nodes, std::vector<PlacedTree>& trees, Use use);

}  // namespace r2cc::planner
