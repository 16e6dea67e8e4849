// Logical re-ranking: in which order the nodes stand in a ring or a chain.
#pragma once

#include <vector>

#include "cluster.h"

namespace r2cc::planner {

/// The request's order, in which nodes that do not get along have others (bridges) moved between them.
std::vector<int> ringOrder(const Cluster& cluster);
/// The ring cut behind `tail`, with `head` at the front: most neighbours are the ring's.
std::vector<int> chainOrder(const Cluster& cluster, const std::vector<int>& ring, int head, int tail);
/// Neighbours (of a ring: also last and first) that have no rail in common.
int strangers(const Cluster& cluster, const std::vector<int>& order, bool ring);

}  // namespace r2cc::planner
