#include "planner/shapes/tree_seats.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "planner/shapes/tree.h"

namespace r2cc::planner {
namespace {

constexpr int kNobody = -1;
constexpr double kRatherNot = 1e9;

/// Slots of the first tree whose nodes are neighbours in either tree, by slot.
std::vector<std::vector<int>> neighboursOf(int nodes) {
  std::vector<std::vector<int>> out(static_cast<size_t>(nodes));
  std::vector<int> slots(static_cast<size_t>(nodes));
  std::iota(slots.begin(), slots.end(), 0);
  for (const std::vector<int>& tree : {slots, twinOf(slots)}) {
    for (int i = 1; i < nodes; i++) {
      const int child = tree[static_cast<size_t>(i)], parent = tree[static_cast<size_t>(treeParent(nodes, i))];
      out[static_cast<size_t>(child)].push_back(parent);
      out[static_cast<size_t>(parent)].push_back(child);
    }
  }
  return out;
}

}  // namespace

TreeSeats::TreeSeats(const Cluster& cluster, const std::vector<int>& ring)
    : ring_(ring), neighbours_(neighboursOf(cluster.nodes())), picky_(ring.size()), used_(ring.size()) {
  for (size_t i = 0; i < ring.size(); i++) picky_[i] = cluster.picky(static_cast<int>(i));
}

std::vector<int> TreeSeats::seated(int first, int second, double share) {
  const LightSlots light = lightSlots(static_cast<int>(ring_.size()));
  std::vector<int> slots(ring_.size(), kNobody), pool;
  slots[static_cast<size_t>(light.first)] = first;
  slots[static_cast<size_t>(light.second)] = second;
  const auto from = std::find(ring_.begin(), ring_.end(), second) - ring_.begin();
  for (size_t i = 1; i < ring_.size(); i++) {
    const int node = ring_[(static_cast<size_t>(from) + i) % ring_.size()];
    if (node != first) pool.push_back(node);
  }
  for (const int slot : {light.first, light.second}) {
    if (!picky(slots[static_cast<size_t>(slot)])) continue;
    for (const int other : neighbours_[static_cast<size_t>(slot)]) {
      if (slots[static_cast<size_t>(other)] == kNobody) slots[static_cast<size_t>(other)] = taken(pool, true);
    }
  }
  for (int& node : slots) {
    if (node == kNobody) node = taken(pool, false);
  }
  for (int slot = 0; slot < static_cast<int>(slots.size()); slot++) {
    if (picky(slots[static_cast<size_t>(slot)]) && slot != light.first && slot != light.second) seat(slots, slot);
  }
  count(slots, share);
  return slots;
}

/// Of having this neighbour.
double TreeSeats::cost(int node) const { return used_[static_cast<size_t>(node)] + (picky(node) ? kRatherNot : 0); }

/// The first; or, `picked`, who has done least for its like so far, and is none of them if that can be helped.
int TreeSeats::taken(std::vector<int>& pool, bool picked) const {
  auto found = pool.begin();
  if (picked) found = std::min_element(pool.begin(), pool.end(), [&](int a, int b) { return cost(a) < cost(b); });
  const int node = *found;
  pool.erase(found);
  return node;
}

/// Changes places with whoever sits among those who have done least for its like so far.
void TreeSeats::seat(std::vector<int>& slots, int slot) const {
  const LightSlots light = lightSlots(static_cast<int>(slots.size()));
  int best = slot;
  double least = std::numeric_limits<double>::infinity();
  for (int to = 0; to < static_cast<int>(slots.size()); to++) {
    if (to == light.first || to == light.second) continue;
    if (to != slot && picky(slots[static_cast<size_t>(to)])) continue;
    double worst = 0;
    for (const int other : neighbours_[static_cast<size_t>(to)]) {
      const int node = slots[static_cast<size_t>(other == slot ? to : other)];  // it would have changed places, too
      worst = std::max(worst, cost(node));
    }
    if (worst < least) least = worst, best = to;
  }
  std::swap(slots[static_cast<size_t>(slot)], slots[static_cast<size_t>(best)]);
}

void TreeSeats::count(const std::vector<int>& slots, double share) {
  for (size_t slot = 0; slot < slots.size(); slot++) {
    if (!picky(slots[slot])) continue;
    for (const int other : neighbours_[slot])
      used_[static_cast<size_t>(slots[static_cast<size_t>(other)])] += share / 2;
  }
}

}  // namespace r2cc::planner
