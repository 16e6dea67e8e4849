// Double trees as a schedule: a degraded node has a light slot in them, as it is an end of chains.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "planner/shapes/chains.h"
#include "planner/shapes/order.h"
#include "planner/shapes/schedules.h"
#include "planner/shapes/tree.h"
#include "planner/shapes/tree_placing.h"
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

namespace {

/// Two nodes for the light slots of each double tree: those that have most left to be spared.
std::vector<std::pair<int, int>> lightOnes(const Cluster& cluster, size_t pairs) {
  const double time = 2 * (cluster.nodes() - 1) / cluster.total();
  std::vector<std::pair<double, int>> wanted;  // what a node must be spared, in messages; the node
  wanted.reserve(static_cast<size_t>(cluster.nodes()));
  for (int node = 0; node < cluster.nodes(); node++) wanted.emplace_back(2 - time * cluster.bandwidth(node), node);
  std::vector<std::pair<int, int>> out;
  while (out.size() < pairs) {
    const auto more = [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    };
    std::partial_sort(wanted.begin(), wanted.begin() + 2, wanted.end(), more);
    out.emplace_back(wanted[0].second, wanted[1].second);
    for (size_t i = 0; i < 2; i++) wanted[i].first -= 1 / static_cast<double>(pairs);
  }
  return out;
}

/// One for each channel: of a line of channels one for each home after the other.
std::vector<PlacedTree> treesOnChannels(const Cluster& cluster, const std::vector<int>& ring, size_t lines,
                                        const std::vector<int>& homes) {
  std::vector<PlacedTree> trees;
  const size_t channels = lines * homes.size();
  TreeSeats seats(cluster, ring);
  const size_t pairs = (channels + 1) / 2;
  for (const auto& [first, second] : lightOnes(cluster, pairs)) {
    std::vector<int> slots = seats.seated(first, second, 1 / static_cast<double>(pairs));
    trees.push_back({homes[trees.size() % homes.size()], slots});
    if (trees.size() < channels) trees.push_back({homes[trees.size() % homes.size()], twinOf(std::move(slots))});
  }
  return trees;
}

Proposal onChannels(const Request& request, const Cluster& cluster, const std::vector<int>& ring, size_t lines,
                    Use use) {
  Proposal out{Schedule::Tree, {}, ""};
  const bool anywhere = request.homes.empty();  // then a channel spreads over all rails
  const std::vector<int> homes = anywhere ? std::vector<int>{0} : request.homes;
  std::vector<PlacedTree> trees = treesOnChannels(cluster, ring, lines, homes);
  if (trees.size() < 2) return {Schedule::Tree, {}, "needs two channels"};
  if (!anywhere) out.railsUsPerByte = placeTrees(request.nodes, trees, use) / request.cost.chainEfficiency;
  const auto used = std::count_if(trees.begin(), trees.end(), [](const PlacedTree& tree) { return tree.used; });
  for (size_t i = 0; i < trees.size(); i++) {
    if (!trees[i].used) continue;
    out.drafts.push_back(treeDraft(std::move(trees[i].slots), 1 / static_cast<double>(used)));
    out.drafts.back().cycle = static_cast<int>(i / homes.size());
    if (!anywhere) out.drafts.back().homes = {static_cast<int>(i % homes.size())};
  }
  out.note = std::to_string(used) + " trees, each on a channel";
  return out;
}

}  // namespace

/// On all lines; or, of an odd number, on one fewer: then each home has whole double trees. Or on some channels of all,
/// where nodes lost different NICs.
std::vector<Proposal> proposeTreesOnChannels(const Request& request, const Cluster& cluster,
                                             const std::vector<int>& ring) {
  const size_t lines = request.cycles.size();
  std::vector<Proposal> out{onChannels(request, cluster, ring, lines, Use::All)};
  if (lines > 1 && lines % 2 == 1) out.push_back(onChannels(request, cluster, ring, lines - 1, Use::All));
  if (cluster.pickyNodes() > 1 && !request.homes.empty())
    out.push_back(onChannels(request, cluster, ring, lines, Use::Some));
  return out;
}

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
