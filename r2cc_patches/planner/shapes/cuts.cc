#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "planner/cost/formulas.h"
#include "planner/cost/model.h"
#include "planner/shapes/cycles.h"
#include "planner/shapes/placing.h"
#include "planner/shapes/schedules.h"

namespace r2cc::planner {
namespace {

constexpr double kFaster = 1 - 1e-9;

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

/// Along all of a cycle: a ring, or a chain from `head` on.
Draft draftOf(Kind kind, const std::vector<std::vector<int>>& cycles, size_t cycle, size_t head, double share) {
  Draft draft;
  draft.kind = kind;
  draft.share = share;
  draft.order = cycles[cycle];
  std::rotate(draft.order.begin(), draft.order.begin() + static_cast<std::ptrdiff_t>(head), draft.order.end());
  draft.cycle = static_cast<int>(cycle);
  return draft;
}

struct PlacedCuts {
  Cuts cuts;
  Placing placing;
  Instead instead = Instead::All;
};

/// Whether a node has lost a NIC where channels are at home.
bool lostAHome(const Request& request, const std::set<int>& homes) {
  return std::any_of(request.nodes.begin(), request.nodes.end(), [&](const Node& node) {
    return std::any_of(homes.begin(), homes.end(),
                       [&](int home) { return node.nics[static_cast<size_t>(home)].capacity <= 0; });
  });
}

/// The best by loads alone, behind one that takes turns where its loads are no worse: where connections are split,
/// pieces wait for each other. Which is faster is for the model, as what takes turns may have more lines.
std::vector<PlacedCuts> placedCuts(const Request& request, const Cluster& cluster,
                                   const std::vector<std::vector<int>>& cycles, const std::vector<int>& ring,
                                   const Cuts& cuts) {
  const double load = ringLoad(cluster.ranks());
  const auto place = [&](const Cuts& given, Lines lines, Instead instead = Instead::All) {
    return placed(request.nodes, cycles, request.homes, given, ring, load, lines, instead);
  };
  PlacedCuts best{cuts, place(cuts, Lines::Cuts)};
  const Cuts chains = cutCycles(cycles, cluster.bandwidths());
  Placing alone = place(chains, Lines::Cuts);
  if (cuts.ringShare > 0 && alone.usPerByte <= best.placing.usPerByte * kWorthARing) best = {chains, std::move(alone)};
  std::optional<PlacedCuts> turns;
  // Rings in other orders spread loads where ends of chains are too few.
  for (const Instead instead : {Instead::All, Instead::InTurn}) {
    if (instead == Instead::InTurn && !request.inTurn) continue;
    PlacedCuts mixed{chains, place(chains, Lines::CutsAndRings, instead), instead};
    if (mixed.placing.usPerByte * kWorthARing <= best.placing.usPerByte)
      best = std::move(mixed);
    else if (instead == Instead::InTurn)
      turns = std::move(mixed);
  }
  const std::set<int> homes(request.homes.begin(), request.homes.end());
  std::vector<PlacedCuts> out;
  if (turns && homes.size() > 2 && lostAHome(request, homes) &&
      turns->placing.usPerByte * kFaster <= best.placing.usPerByte)
    out.push_back(std::move(*turns));
  out.push_back(std::move(best));
  return out;
}

}  // namespace

namespace {

Proposal proposalOf(const Request& request, const std::vector<std::vector<int>>& cycles, const std::vector<int>& ring,
                    const Cuts& cuts, const PlacedCuts* placed) {
  Proposal out{Schedule::Chain, {}, ""};
  double rings = 0;
  if (placed == nullptr) {
    for (const Cut& cut : cuts.cuts) out.drafts.push_back(draftOf(Kind::Chain, cycles, cut.cycle, cut.head, cut.share));
  } else {
    for (const PlacedLine& line : placed->placing.lines) {
      const Kind kind = line.whole ? Kind::Ring : Kind::Chain;
      out.drafts.push_back(draftOf(kind, cycles, line.cycle, line.head, line.share));
      out.drafts.back().homes = line.homes;
      rings += line.whole ? line.share : 0;
    }
    const Cost& cost = request.cost;
    const bool anyRing = rings > 0 || cuts.ringShare > 0;
    const double reached = anyRing ? std::min(cost.chainEfficiency, cost.ringEfficiency) : cost.chainEfficiency;
    out.railsUsPerByte = placed->placing.usPerByte / reached;
    out.inTurn = placed->instead == Instead::InTurn;
  }
  if (cuts.ringShare > 0) {
    Draft draft;
    draft.share = cuts.ringShare;
    draft.order = ring;
    out.drafts.insert(out.drafts.begin(), std::move(draft));
  }
  char note[96];
  std::snprintf(note, sizeof(note), "%zu lines along %zu cycles, %.3g of the message on rings%s", out.drafts.size(),
                cycles.size(), cuts.ringShare + rings, out.inTurn ? ", in turn" : "");
  out.note = note;
  return out;
}

}  // namespace

std::vector<Proposal> proposeCuts(const Request& request, const Cluster& cluster, const std::vector<int>& ring) {
  const std::vector<std::vector<int>> cycles = nodeCycles(request, cluster);
  const Cuts found = cutCycles(cycles, cluster.bandwidths(), ringLoad(cluster.ranks()));
  if (request.homes.empty()) return {proposalOf(request, cycles, ring, found, nullptr)};
  std::vector<Proposal> out;
  for (const PlacedCuts& each : placedCuts(request, cluster, cycles, ring, found)) {
    out.push_back(proposalOf(request, cycles, ring, each.cuts, &each));
  }
  return out;
}

std::vector<Proposal> proposeReranked(const Request& request, const Cluster& cluster) {
  const std::vector<std::vector<int>> cycles = nodeCycles(request, cluster);
  const double load = ringLoad(cluster.ranks()) * ringUse(request.op, cluster).load;
  std::vector<Proposal> out;
  const auto add = [&](size_t first, size_t count) {
    Proposal proposal{Schedule::Reranked, {}, ""};
    for (size_t i = first; i < first + count; i++) {
      proposal.drafts.push_back(draftOf(Kind::Ring, cycles, i, 0, 1 / static_cast<double>(count)));
      std::vector<int>& homes = proposal.drafts.back().homes;
      homes.resize(request.homes.size());
      std::iota(homes.begin(), homes.end(), 0);
    }
    proposal.note = count == 1 ? "a ring in another order" : std::to_string(count) + " rings in other orders";
    out.push_back(std::move(proposal));
  };
  if (request.homes.empty()) {
    for (size_t i = 0; i < cycles.size(); i++) add(i, 1);
    return out;
  }
  for (size_t count = 1; count <= cycles.size(); count++) {
    size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t first = 0; first + count <= cycles.size(); first++) {
      const double time = ringsUsPerByte(request.nodes, cycles, first, count, request.homes, load);
      if (time < least * kFaster) least = time, best = first;
    }
    add(best, count);
    out.back().railsUsPerByte = least / request.cost.ringEfficiency;
  }
  return out;
}

}  // namespace r2cc::planner
