#include "planner/shapes/schedules.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "planner/cost/formulas.h"
#include "planner/shapes/chains.h"
#include "planner/shapes/order.h"

namespace r2cc::planner {
namespace {

constexpr double kWorthAPart = 1e-6;  // less of the message than this is not worth connections of its own

Draft ringDraft(const std::vector<int>& ring, double share) {
  Draft draft;
  draft.share = share;
  draft.order = ring;
  return draft;
}

/// Shares that sum to 1 again after small ones were left out.
void normalise(std::vector<Draft>& drafts) {
  double sum = 0;
  for (const Draft& draft : drafts) sum += draft.share;
  for (Draft& draft : drafts) draft.share /= sum;
}

std::string besideRing(double share) {
  if (share <= kWorthAPart) return "";
  char text[48];
  std::snprintf(text, sizeof(text), ", %.3g of the message on a ring", share);
  return text;
}

Proposal impossible(Schedule schedule, const char* why) { return {schedule, {}, why}; }

Proposal chained(Schedule schedule, const Cluster& cluster, const std::vector<int>& ring, const Allotment& split) {
  Proposal out{schedule, {}, ""};
  if (split.ringShare > kWorthAPart) out.drafts.push_back(ringDraft(ring, split.ringShare));
  Seating seating(cluster, ring);
  for (const ChainShare& chain : split.chains) {
    if (chain.share <= kWorthAPart) continue;
    Draft draft;
    draft.kind = Kind::Chain;
    draft.share = chain.share;
    draft.order = seating.chain(chain.head, chain.tail, chain.share);
    // The slower end is the head: it is given and gives on in the middle of the pipeline. As the tail it would have
    // nothing to take while this is filled, and nothing to give while it empties.
    std::reverse(draft.order.begin(), draft.order.end());
    out.drafts.push_back(std::move(draft));
  }
  if (out.drafts.size() < 2 && split.ringShare > kWorthAPart) return impossible(schedule, "the ring alone is as fast");
  normalise(out.drafts);
  const size_t rings = split.ringShare > kWorthAPart ? 1 : 0;
  const size_t chains = out.drafts.size() - rings;
  out.note = std::to_string(chains) + (chains == 1 ? " chain" : " chains") + besideRing(split.ringShare);
  return out;
}

int successor(const std::vector<int>& ring, int node) {
  const auto at = std::find(ring.begin(), ring.end(), node) + 1;
  return at == ring.end() ? ring.front() : *at;
}

/// Nodes of which each has at least `bandwidth`, and those that are slower, the slowest first.
struct Level {
  double bandwidth = 0;
  std::vector<int> slower;
};

/// At most so many, from the slowest node's up; the last one of two nodes at least.
std::vector<Level> levelsOf(const Cluster& cluster, size_t most) {
  std::vector<int> nodes = cluster.degraded();
  std::vector<Level> levels{{cluster.slowest(), {}}};
  const auto faster = [&](double bandwidth) { return bandwidth > levels.back().bandwidth * (1 + 1e-9); };
  for (size_t i = 0; i < nodes.size() && levels.size() < most; i++) {
    const bool two = static_cast<size_t>(cluster.nodes()) - i >= 2;
    if (!two || !faster(cluster.bandwidth(nodes[i]))) continue;
    levels.push_back({cluster.bandwidth(nodes[i]), {nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(i)}});
  }
  const bool two = static_cast<size_t>(cluster.nodes()) - nodes.size() >= 2;
  if (two && levels.size() < most && faster(cluster.fastest())) levels.push_back({cluster.fastest(), nodes});
  return levels;
}

/// The ring of all and the first partial one are one part where they have the same order, or where there may be no
/// more.
void mergeFirst(std::vector<Draft>& drafts, const std::vector<int>& ring, int parts) {
  const std::vector<int> rest = without(ring, drafts[1].spared);
  const bool same = std::equal(rest.begin(), rest.end(), drafts[1].order.begin());
  if (!same && drafts.size() <= static_cast<size_t>(parts)) return;
  const double share = drafts[0].share + drafts[1].share;
  drafts[1].y = drafts[1].share / share;
  drafts[1].share = share;
  drafts[1].order = ring;
  drafts.erase(drafts.begin());
}

}  // namespace

Proposal proposeRing(const std::vector<int>& ring) {
  return {Schedule::Ring, {ringDraft(ring, 1)}, "one ring on balanced paths"};
}

Proposal proposeOrdinary(const std::string& op, const std::vector<int>& ring) {
  Proposal out = proposeRing(ring);
  if (op != "alltoall" && op != "sendrecv") return out;
  out.schedule = Schedule::Direct;
  out.drafts.front().kind = Kind::Direct;
  out.note = op == "alltoall" ? "each rank to each other one, on balanced paths" : "pairs of ranks, on balanced paths";
  return out;
}

std::vector<Proposal> proposeChains(const Cluster& cluster, const std::vector<int>& ring, int parts) {
  if (cluster.nodes() < 2) return {impossible(Schedule::Chain, "needs two nodes")};
  std::vector<Proposal> out;
  for (const Allotment& split : allotEnds(cluster, parts))
    out.push_back(chained(Schedule::Chain, cluster, ring, split));
  return out;
}

std::vector<Proposal> proposeFixedChain(const Cluster& cluster, const std::vector<int>& ring, int parts) {
  if (cluster.nodes() < 2) return {impossible(Schedule::ChainFixed, "needs two nodes")};
  std::vector<Proposal> out;
  for (Allotment split : fixedEnds(cluster, parts)) {
    // Of healthy heads the one behind the tail in the ring: then the ring's connections serve, and their reverse.
    for (ChainShare& chain : split.chains) {
      if (cluster.bandwidth(chain.head) >= cluster.fastest()) chain.head = successor(ring, chain.tail);
    }
    out.push_back(chained(Schedule::ChainFixed, cluster, ring, split));
  }
  return out;
}

/// Recursive splitting. Level 0 is a ring of all with what the slowest has left, level k a ring of the nodes faster
/// than that with what level k - 1 left of the slowest of them, and so on; a level's share is as its bandwidth. What
/// the upper levels do without the slower nodes goes through these afterwards.
Proposal proposePublished(const Cluster& cluster, const std::vector<int>& ring, int parts) {
  if (cluster.degraded().empty()) return impossible(Schedule::Published, "no node is slower than the others");
  if (cluster.nodes() < 3) return impossible(Schedule::Published, "needs three nodes");
  const std::vector<Level> levels = levelsOf(cluster, static_cast<size_t>(parts) + 1);
  if (levels.size() < 2) return impossible(Schedule::Published, "needs two nodes faster than the slowest");
  Proposal out{Schedule::Published, {}, "the partial ring takes what the degraded node lost"};
  double below = 0;
  for (const Level& level : levels) {
    Draft draft = ringDraft(ring, level.bandwidth - below);
    draft.kind = level.slower.empty() ? Kind::Ring : Kind::Published;
    draft.spared = level.slower;
    if (!level.slower.empty()) {
      draft.straggler = level.slower.front();
      draft.y = 1;
      draft.order = partialRing(cluster, without(ring, level.slower));
      draft.order.insert(draft.order.end(), level.slower.begin(), level.slower.end());
    }
    below = level.bandwidth;
    out.drafts.push_back(std::move(draft));
  }
  mergeFirst(out.drafts, ring, parts);
  normalise(out.drafts);
  if (levels.size() > 2) out.note = std::to_string(levels.size() - 1) + " partial rings, each of fewer nodes";
  return out;
}

/// Half of it mirrored, beside a ring that fills the straggler's idle time while it lost less than half.
Proposal proposeOptcc(const Cluster& cluster, const std::vector<int>& ring, int parts) {
  if (!cluster.oneRankEach()) return impossible(Schedule::OptCC, "needs one rank a node");
  if (cluster.nodes() < 3) return impossible(Schedule::OptCC, "needs three nodes");
  if (cluster.degraded().size() != 1) return impossible(Schedule::OptCC, "needs exactly one degraded node");
  const int straggler = cluster.degraded().front();
  const double lost = 1 - cluster.bandwidth(straggler) / cluster.fastest();
  const double y = parts == 1 || parts == 2 ? 0 : rotatingHeadsTime(cluster.nodes(), lost).ringShare;
  Proposal out{Schedule::OptCC, {}, "four stages"};
  if (y > kWorthAPart) out.drafts.push_back(ringDraft(ring, y));
  if (y > 1 - kWorthAPart) return impossible(Schedule::OptCC, "the ring alone is as fast");
  for (const bool mirrored : {false, true}) {
    if (mirrored && parts == 1) break;
    Draft draft = ringDraft(ring, (1 - y) / (parts == 1 ? 1 : 2));
    draft.order.erase(std::find(draft.order.begin(), draft.order.end(), straggler));
    draft.kind = Kind::OptCC;
    draft.straggler = straggler;
    draft.mirrored = mirrored;
    out.drafts.push_back(std::move(draft));
  }
  normalise(out.drafts);
  out.note += besideRing(y);
  return out;
}

}  // namespace r2cc::planner
