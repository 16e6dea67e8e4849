// A chain can lie on several channels, each with a home NIC. Between two nodes that both have it, a channel's messages
// go over that NIC's rail; where one of them lost it, over the rails that both still have. So on all homes alike whole
// nodes would carry more on those rails than on the lost one. Which channels are used evens that out; what is used
// carries the same, as connections that meet on a NIC get the same rate, and one with more would be left over at the
// end.
#pragma once

#include <vector>

#include "planner.h"

namespace r2cc::planner {

struct PlacedPart {
  bool ring = false;  // on all homes, as it is
  double share = 0;   // of a chain: only the sum counts
  std::vector<int> nodes;
};

/// For each part the homes that it is used on (places in `homes`, which are places in the nodes' lists of NICs); none
/// of a chain that is better left out. Empty for rings. A chain's share is its part of all that is used.
std::vector<std::vector<int>> placed(const std::vector<Node>& nodes, const std::vector<PlacedPart>& parts, int ranks,
                                     const std::vector<int>& homes);

}  // namespace r2cc::planner
