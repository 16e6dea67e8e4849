#include "planner/shapes/tree_seats.h"

#include <algorithm>
#include <cstddef>

#include "planner/shapes/tree.h"

namespace r2cc::planner {
namespace {

constexpr int kNobody = -1;
constexpr double kRatherNot = 1e9;

}  // namespace

TreeSeats::TreeSeats(const Cluster& cluster, const std::vector<int>& ring)
    : cluster_(cluster), ring_(ring), picky_(ring.size()), used_(ring.size()) {
  for (size_t i = 0; i < ring.size(); i++) picky_[i] = cluster.picky(static_cast<int>(i));
}

std::vector<int> TreeSeats::seated(int first, int second, double share) {
  const LightSlots light = lightSlots(cluster_.nodes());
  std::vector<int> slots(ring_.size(), kNobody), pool;
  slots[static_cast<size_t>(light.first)] = first;
  slots[static_cast<size_t>(light.second)] = second;
  const auto from = std::find(ring_.begin(), ring_.end(), second) - ring_.begin();
  for (size_t i = 1; i < ring_.size(); i++) {
    const int node = ring_[(static_cast<size_t>(from) + i) % ring_.size()];
    if (node != first) pool.push_back(node);
  }
  for (const int slot : {light.first, light.second}) {
    if (!picky_[static_cast<size_t>(slots[static_cast<size_t>(slot)])]) continue;
    for (const int other : neighboursOf(slot)) {
      if (slots[static_cast<size_t>(other)] == kNobody) slots[static_cast<size_t>(other)] = taken(pool, true);
    }
  }
  for (int& node : slots) {
    if (node == kNobody) node = taken(pool, false);
  }
  count(slots, share);
  return slots;
}

/// The first; or, `picked`, who has done least for its like so far, and is none of them if that can be helped.
int TreeSeats::taken(std::vector<int>& pool, bool picked) const {
  const auto cost = [&](int node) {
    const auto i = static_cast<size_t>(node);
    return used_[i] + (picky_[i] ? kRatherNot : 0);
  };
  auto found = pool.begin();
  if (picked) found = std::min_element(pool.begin(), pool.end(), [&](int a, int b) { return cost(a) < cost(b); });
  const int node = *found;
  pool.erase(found);
  return node;
}

/// Slots of the first tree whose nodes are neighbours of that one's in either tree.
std::vector<int> TreeSeats::neighboursOf(int slot) const {
  const int nodes = cluster_.nodes();
  std::vector<int> same(static_cast<size_t>(nodes)), out;
  for (int i = 0; i < nodes; i++) same[static_cast<size_t>(i)] = i;
  for (const std::vector<int>& tree : {same, twinOf(same)}) {
    for (int i = 1; i < nodes; i++) {
      const int child = tree[static_cast<size_t>(i)], parent = tree[static_cast<size_t>(treeParent(nodes, i))];
      if (child == slot) out.push_back(parent);
      if (parent == slot) out.push_back(child);
    }
  }
  return out;
}

void TreeSeats::count(const std::vector<int>& slots, double share) {
  const int nodes = cluster_.nodes();
  for (const std::vector<int>& tree : {slots, twinOf(slots)}) {
    for (int i = 1; i < nodes; i++) {
      const auto a = static_cast<size_t>(tree[static_cast<size_t>(i)]);
      const auto b = static_cast<size_t>(tree[static_cast<size_t>(treeParent(nodes, i))]);
      if (picky_[a]) used_[b] += share / 2;
      if (picky_[b]) used_[a] += share / 2;
    }
  }
}

}  // namespace r2cc::planner
