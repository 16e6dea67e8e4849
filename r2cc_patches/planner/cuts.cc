#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "cycles.h"
#include "formulas.h"
#include "schedules.h"

namespace r2cc::planner {
namespace {

/// The nodes in the order in which a cycle of ranks passes them.
std::vector<int> nodesOf(const std::vector<int>& cycle, const std::vector<int>& nodeOfRank) {
  std::vector<int> nodes;
  for (const int rank : cycle) {
    const int node = nodeOfRank[static_cast<size_t>(rank)];
    if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
  }
  return nodes;
}

std::vector<std::vector<int>> nodeCycles(const Request& request, const Cluster& cluster) {
  std::vector<int> nodeOfRank(static_cast<size_t>(cluster.ranks()));
  for (int node = 0; node < cluster.nodes(); node++) {
    for (const int rank : cluster.ranksOf(node)) nodeOfRank[static_cast<size_t>(rank)] = node;
  }
  std::vector<std::vector<int>> out;
  out.reserve(request.cycles.size());
  for (const std::vector<int>& cycle : request.cycles) out.push_back(nodesOf(cycle, nodeOfRank));
  return out;
}

}  // namespace

Proposal proposeCuts(const Request& request, const Cluster& cluster, const std::vector<int>& ring) {
  const std::vector<std::vector<int>> cycles = nodeCycles(request, cluster);
  const Cuts found = cutCycles(cycles, cluster.bandwidths(), ringLoad(cluster.ranks()));
  Proposal out{Schedule::Chain, {}, ""};
  if (found.ringShare > 0) {
    Draft draft;
    draft.share = found.ringShare;
    draft.order = ring;
    out.drafts.push_back(std::move(draft));
  }
  for (const Cut& cut : found.cuts) {
    Draft draft;
    draft.kind = Kind::Chain;
    draft.share = cut.share;
    draft.order = cycles[cut.cycle];
    std::rotate(draft.order.begin(), draft.order.begin() + static_cast<std::ptrdiff_t>(cut.head), draft.order.end());
    draft.cycle = static_cast<int>(cut.cycle);
    out.drafts.push_back(std::move(draft));
  }
  char note[96];
  std::snprintf(note, sizeof(note), "%zu cuts of %zu cycles, %.3g of the message on a ring", found.cuts.size(),
                cycles.size(), found.ringShare);
  out.note = note;
  return out;
}

}  // namespace r2cc::planner
