// Double trees as a schedule: a degraded node has a light slot in them, as it is an end of chains.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "planner/shapes/chains.h"
#include "planner/shapes/order.h"
#include "planner/shapes/schedules.h"
#include "planner/shapes/tree.h"
#include "planner/shapes/tree_seats.h"

namespace r2cc::planner {
namespace {

constexpr int kFewestNodes = 3;
constexpr int kMostDouble = 32;       // double trees: more are hardly more even, and take long to be filled
constexpr double kWorthATree = 1e-6;  // as chains'

Draft treeDraft(std::vector<int> slots, double share) {
  Draft draft;
  draft.kind = Kind::Tree;
  draft.share = share;
  draft.order = std::move(slots);
  return draft;
}

Proposal treesOf(const Cluster& cluster, const std::vector<int>& ring, const Allotment& split) {
  Proposal out{Schedule::Tree, {}, ""};
  double sum = split.ringShare > kWorthATree ? split.ringShare : 0;
  if (sum > 0) {
    Draft draft;
    draft.share = split.ringShare;
    draft.order = ring;
    out.drafts.push_back(std::move(draft));
  }
  TreeSeats seats(cluster, ring);
  int pairs = 0;
  for (const ChainShare& each : split.chains) {
    if (each.share <= kWorthATree) continue;
    std::vector<int> slots = seats.seated(each.tail, each.head, each.share);
    out.drafts.push_back(treeDraft(twinOf(slots), each.share / 2));
    out.drafts.push_back(treeDraft(std::move(slots), each.share / 2));
    sum += each.share;
    pairs++;
  }
  if (pairs == 0) return {Schedule::Tree, {}, "the ring alone is as fast"};
  for (Draft& draft : out.drafts) draft.share /= sum;
  char note[96];
  const int used = std::snprintf(note, sizeof(note), "%d double tree%s", pairs, pairs == 1 ? "" : "s");
  if (split.ringShare > kWorthATree)
    std::snprintf(note + used, sizeof(note) - static_cast<size_t>(used), ", %.3g of the message on a ring",
                  split.ringShare);
  out.note = note;
  return out;
}

}  // namespace

/// Of both light slots and all others a double tree makes what a chain makes of its ends and the rest. So ends are
/// allotted as those of chains.
std::vector<Proposal> proposeTrees(const Cluster& cluster, const std::vector<int>& ring, int parts) {
  if (cluster.nodes() < kFewestNodes) return {{Schedule::Tree, {}, "needs three nodes"}};
  if (parts < 2) return {{Schedule::Tree, {}, "needs two parts"}};
  std::vector<Proposal> out;
  for (int most = 1; most <= std::min(parts / 2, kMostDouble); most *= 2) {
    for (const Allotment& split : allotEnds(cluster, most)) out.push_back(treesOf(cluster, ring, split));
  }
  return out;
}

}  // namespace r2cc::planner
