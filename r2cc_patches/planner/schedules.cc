#include "schedules.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "chains.h"
#include "formulas.h"
#include "order.h"

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

}  // namespace

Proposal proposeRing(const std::vector<int>& ring) {
  return {Schedule::Ring, {ringDraft(ring, 1)}, "one ring on balanced paths"};
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

/// One part a degraded node, which spares that node; the shares are as the bandwidths that they lost.
Proposal proposePublished(const Cluster& cluster, const std::vector<int>& ring, int parts) {
  if (cluster.degraded().empty()) return impossible(Schedule::Published, "no node is slower than the others");
  if (cluster.nodes() < 3) return impossible(Schedule::Published, "needs three nodes");
  Proposal out{Schedule::Published, {}, "the partial ring takes what the degraded node lost"};
  std::vector<int> spared = cluster.degraded();
  if (static_cast<size_t>(parts) < spared.size()) spared.resize(static_cast<size_t>(parts));
  for (const int node : spared) {
    Draft draft = ringDraft(ring, 1);
    draft.kind = Kind::Published;
    draft.straggler = node;
    draft.y = 1 - cluster.bandwidth(node) / cluster.fastest();
    draft.share = draft.y;
    out.drafts.push_back(std::move(draft));
  }
  normalise(out.drafts);
  if (cluster.degraded().size() > 1) out.note = "one part for each degraded node, as far as there are channels";
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
