// A plan as streams: what runs side by side, in which order, and between which hosts.
#pragma once

#include <vector>

#include "planner/planner.h"

namespace r2cc::sim {

/// From host to host, in bytes for each byte of the stream.
struct Edge {
  int from = 0;
  int to = 0;
  double perByte = 0;
};

/// A pipeline through all of its edges.
struct Stream {
  double share = 0;  // of the message
  double overhead = 1;
  bool ring = false;  // NCCL's, a plain ring or tree: what can be split over the NICs that it is at home on
  std::vector<Edge> edges;
  std::vector<int> after;
};

/// Hosts are the plan's nodes: host of rank r is r / ranksPerNode. `factor`: what a ring of this operation carries,
/// relative to an AllReduce's.
std::vector<Stream> streamsOf(const planner::Plan& plan, const planner::Cost& cost, int ranksPerNode, double factor);

/// NCCL's double tree between hosts: half of the message up and down in each tree. Host h has place h + `rotation` in
/// it, modulo their number.
std::vector<Stream> treeStreams(int hosts, const planner::Cost& cost, int rotation);

}  // namespace r2cc::sim
