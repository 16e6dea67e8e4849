// The schedules that a cluster could run, as drafts.
#pragma once

#include <string>
#include <vector>

#include "planner/cost/cluster.h"
#include "planner/cost/model.h"

namespace r2cc::planner {

/// No drafts: it cannot run here, and the note says why.
struct Proposal {
  Schedule schedule = Schedule::Ring;
  std::vector<Draft> drafts;
  std::string note;
  double railsUsPerByte = 0;  // of the busiest NIC, where drafts are placed on channels with homes
  bool inTurn = false;        // Plan's
};

/// `ring` is the nodes' order in rings, from ringOrder. `parts`: at most so many drafts, 1 at least.
Proposal proposeRing(const std::vector<int>& ring);
/// What runs where nothing is special: a ring, but for operations that are none.
Proposal proposeOrdinary(const std::string& op, const std::vector<int>& ring);
Proposal proposePublished(const Cluster& cluster, const std::vector<int>& ring, int parts);
/// One for each shape: what is fastest depends on the rails, too.
std::vector<Proposal> proposeChains(const Cluster& cluster, const std::vector<int>& ring, int parts);
std::vector<Proposal> proposeFixedChain(const Cluster& cluster, const std::vector<int>& ring, int parts);
/// Chains as cuts of the request's cycles, beside rings. The first is to be preferred where it is as fast.
std::vector<Proposal> proposeCuts(const Request& request, const Cluster& cluster, const std::vector<int>& ring);
/// Rings along the request's cycles: one proposal for each number of these. They are cycles that stand next to each
/// other, on all of their channels: NCCL can lay an AllGather on such channels as it does on its own.
std::vector<Proposal> proposeReranked(const Request& request, const Cluster& cluster);
/// Double trees beside a ring; of several the number of trees differs.
std::vector<Proposal> proposeTrees(const Cluster& cluster, const std::vector<int>& ring, int parts);
/// Trees on the channels of the request's cycles, one on each.
std::vector<Proposal> proposeTreesOnChannels(const Request& request, const Cluster& cluster,
                                             const std::vector<int>& ring);
Proposal proposeOptcc(const Cluster& cluster, const std::vector<int>& ring, int parts);

}  // namespace r2cc::planner
