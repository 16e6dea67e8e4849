// A part lies on several channels, each with a home NIC. Between two nodes that both have it, a channel's messages go
// over that NIC's rail; where one of them lost it, over the rails that both still have. So whole nodes would carry more
// on those rails than on the lost one: channels at home there take more of the message.
#pragma once

#include <vector>

#include "planner.h"

namespace r2cc::planner {

/// How much of every part lies on each of the channels, whose homes are `homes` (places in the nodes' lists of NICs),
/// so that the busiest NIC is busy for the least time. Sums to 1. `orders`: nodes, not ranks.
struct PlacedPart {
  bool ring = false;
  double share = 0;
  std::vector<int> nodes;
};
std::vector<double> homeShares(const std::vector<Node>& nodes, const std::vector<PlacedPart>& parts, int ranks,
                               const std::vector<int>& homes);

}  // namespace r2cc::planner
