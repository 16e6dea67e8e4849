// Requests for the planner's tests: nodes h0, h1, ... with NICs of 1 Gbit/s.
#pragma once

#include <string>

#include "planner/planner.h"

namespace r2cc::check {

inline planner::Node planNode(int index, int ranks, int nics, double left) {
  planner::Node node;
  node.name = "h" + std::to_string(index);
  for (int rank = 0; rank < ranks; rank++) node.ranks.push_back(index * ranks + rank);
  for (int nic = 0; nic < nics; nic++) node.nics.push_back({"eth" + std::to_string(nic), 1, left});
  return node;
}

/// Bandwidth alone: no latency, full efficiency.
inline void bare(planner::Cost& cost) {
  cost.hopUs = cost.localHopUs = 0;
  cost.ringEfficiency = cost.chainEfficiency = cost.stagedEfficiency = 1;
}

/// Node 1 has lost the share x. No latency: times are bandwidth alone.
inline planner::Request degraded(int nodes, int ranksEach, double x, planner::Schedule schedule) {
  planner::Request request;
  for (int i = 0; i < nodes; i++) request.nodes.push_back(planNode(i, ranksEach, 1, i == 1 ? 1 - x : 1));
  request.bytes = uint64_t{64} << 30;
  request.schedule = schedule;
  bare(request.cost);
  request.cost.chunkBytes = 1;
  return request;
}

inline bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

/// In D/B: with healthy nodes of 1 Gbit/s.
inline double inUnits(double us, const planner::Request& request) {
  return us * 125 / static_cast<double>(request.bytes);
}

}  // namespace r2cc::check
