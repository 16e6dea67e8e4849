#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "planner/cost/formulas.h"
#include "planner/shapes/cycles.h"
#include "planner/shapes/placing.h"
#include "planner/shapes/schedules.h"

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
  const double load = ringLoad(cluster.ranks());
  Cuts found = cutCycles(cycles, cluster.bandwidths(), load);
  Placing placing;
  if (!request.homes.empty()) {
    placing = placed(request.nodes, cycles, request.homes, found, ring, load);
    const Cuts chains = cutCycles(cycles, cluster.bandwidths());
    const Placing alone = placed(request.nodes, cycles, request.homes, chains, ring, load);
    if (found.ringShare > 0 && alone.usPerByte <= placing.usPerByte * kWorthARing) found = chains, placing = alone;
  }
  Proposal out{Schedule::Chain, {}, ""};
  if (found.ringShare > 0) {
    Draft draft;
    draft.share = found.ringShare;
    draft.order = ring;
    out.drafts.push_back(std::move(draft));
  }
  const auto add = [&](size_t cycle, size_t head, double share) {
    Draft draft;
    draft.kind = Kind::Chain;
    draft.share = share;
    draft.order = cycles[cycle];
    std::rotate(draft.order.begin(), draft.order.begin() + static_cast<std::ptrdiff_t>(head), draft.order.end());
    draft.cycle = static_cast<int>(cycle);
    out.drafts.push_back(std::move(draft));
  };
  if (request.homes.empty()) {
    for (const Cut& cut : found.cuts) add(cut.cycle, cut.head, cut.share);
  } else {
    size_t used = 0;
    for (const PlacedCut& cut : placing.cuts) used += cut.homes.size();
    for (const PlacedCut& cut : placing.cuts) {
      const double part = static_cast<double>(cut.homes.size()) / static_cast<double>(used);
      add(cut.cycle, cut.head, (1 - found.ringShare) * part);
      out.drafts.back().homes = cut.homes;
    }
    out.railsUsPerByte = placing.usPerByte / request.cost.chainEfficiency;
  }
  char note[96];
  std::snprintf(note, sizeof(note), "%zu cuts of %zu cycles, %.3g of the message on a ring", out.drafts.size(),
                cycles.size(), found.ringShare);
  out.note = note;
  return out;
}

}  // namespace r2cc::planner
