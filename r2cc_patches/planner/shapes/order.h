// Logical re-ranking: in which order the nodes stand in a ring or a chain.
#pragma once

#include <vector>

#include "planner/cost/cluster.h"

namespace r2cc::planner {

std::vector<int> requestOrder(const Cluster& cluster);
/// The request's order, in which nodes that do not get along have others (bridges) moved between them.
std::vector<int> ringOrder(const Cluster& cluster);
/// Orders of chains, one after the other. Most neighbours are the ring's; but what goes to a node that lost some of its
/// NICs must go over the others, so such nodes get other neighbours in every chain, and none has them all.
class Seating {
 public:
  Seating(const Cluster& cluster, const std::vector<int>& ring);
  std::vector<int> chain(int head, int tail, double share);

 private:
  void seat(std::vector<int>& order, int node);
  void count(const std::vector<int>& order, double share);
  const Cluster& cluster_;
  const std::vector<int>& ring_;
  std::vector<bool> picky_;
  bool anyPicky_ = false;
  std::vector<double> used_;  // by node: what it has exchanged with picky neighbours so far
};

/// The ring of a part of the nodes, in the order of `nodes`, with bridges as above.
std::vector<int> partialRing(const Cluster& cluster, std::vector<int> nodes);
std::vector<int> without(const std::vector<int>& nodes, const std::vector<int>& left);

/// Neighbours (of a ring: also last and first) that have no rail in common.
int strangers(const Cluster& cluster, const std::vector<int>& order, bool ring);

}  // namespace r2cc::planner
