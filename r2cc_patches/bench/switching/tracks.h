// Connections that stand before anybody knows what will run over them: those of a ring over all ranks, and those of
// cycles of hosts, both ways. A chain is a cycle that is cut between two hosts (planner/cycles.h), so that whatever
// plan comes, it finds its connections.
#pragma once

#include <string>
#include <vector>

#include "bench/programs/layout.h"
#include "bench/programs/placement.h"
#include "planner/planner.h"

namespace r2cc::bench {

// The hosts as the planner knows them, in the order of their first ranks. `ranks` are aligned: a NIC's place is the
// same everywhere. A NIC of unknown rate counts as one of 1 Gbit/s.
std::vector<planner::Node> nodesOf(const std::vector<RankNics>& ranks);

class Tracks {
 public:
  // `channels` of the ring and of each cycle, on NIC c modulo `nics`. Fewer than three hosts have no cycles.
  Tracks(const std::vector<planner::Node>& nodes, int channels, int nics);

  const std::vector<std::vector<int>>& cycles() const { return cycles_; }  // of ranks
  const std::vector<int>& homes() const { return homes_; }                 // of the channels: places of NICs
  const std::vector<FlowPlan>& plans() const { return plans_; }            // by track; they move nothing

  // What each track moves under this plan, over the edges of plans(): nothing, on most. Throws std::logic_error for a
  // plan that was made for other connections.
  std::vector<Sequence> programs(const planner::Plan& plan, uint64_t elements, uint32_t chunkBytes) const;

 private:
  size_t track(int cycle, int channel) const;  // cycle -1: the ring
  std::vector<size_t> tracksOf(const planner::Part& part) const;

  std::vector<std::vector<int>> cycles_;
  std::vector<int> homes_;
  std::vector<FlowPlan> plans_;
};

}  // namespace r2cc::bench
