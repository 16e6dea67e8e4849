// Which node has which slot of double trees, one after the other.
#pragma once

#include <vector>

#include "planner/cost/cluster.h"

namespace r2cc::planner {

/// As for chains: what goes to a node that lost some of its NICs must go over the others, so such a node gets other
/// neighbours in every tree.
class TreeSeats {
 public:
  TreeSeats(const Cluster& cluster, const std::vector<int>& ring);
  /// Slots of the first tree of a double tree of `share` of the message; `first`, `second`: who has the light ones.
  std::vector<int> seated(int first, int second, double share);

 private:
  bool picky(int node) const { return picky_[static_cast<size_t>(node)]; }
  double cost(int node) const;
  int taken(std::vector<int>& pool, bool picked) const;
  void seat(std::vector<int>& slots, int slot) const;
  void count(const std::vector<int>& slots, double share);

  const std::vector<int>& ring_;
  std::vector<std::vector<int>> neighbours_;  // of each slot, in both trees
  std::vector<bool> picky_;
  std::vector<double> used_;  // by node: what it has exchanged with picky neighbours so far
};

}  // namespace r2cc::planner
