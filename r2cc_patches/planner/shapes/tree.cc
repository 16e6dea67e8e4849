#include "planner/shapes/tree.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace r2cc::planner {
namespace {

/// How many hops below the root.
int levelOf(int nodes, int slot) {
  int level = 0;
  for (int at = slot; at > 0; at = treeParent(nodes, at)) level++;
  return level;
}

}  // namespace

/// The number without its lowest bit and with the next higher one; where there is no such slot, just without its
/// lowest.
int treeParent(int nodes, int slot) {
  if (slot == 0) return -1;
  const int bit = slot & -slot;
  const int up = (slot ^ bit) | (bit << 1);
  return up >= nodes ? slot ^ bit : up;
}

int treeDepth(int nodes) {
  int depth = 0;
  for (int slot = 1; slot < nodes; slot += 2) depth = std::max(depth, levelOf(nodes, slot));  // the leaves
  return depth;
}

std::vector<int> treeDegrees(int nodes) {
  std::vector<int> degrees(static_cast<size_t>(nodes), 0);
  for (int slot = 1; slot < nodes; slot++) {
    degrees[static_cast<size_t>(slot)]++;
    degrees[static_cast<size_t>(treeParent(nodes, slot))]++;
  }
  return degrees;
}

std::vector<int> treeDownwards(int nodes) {
  std::vector<std::pair<int, int>> levels;
  levels.reserve(static_cast<size_t>(nodes));
  for (int slot = 0; slot < nodes; slot++) levels.emplace_back(levelOf(nodes, slot), slot);
  std::sort(levels.begin(), levels.end());
  std::vector<int> slots;
  slots.reserve(levels.size());
  for (const auto& [level, slot] : levels) slots.push_back(slot);
  return slots;
}

LightSlots lightSlots(int nodes) {
  if (nodes <= 3) return {1, 0};
  return {1, nodes % 2 == 0 ? nodes - 1 : nodes - 2};
}

/// An inside slot has three neighbours, an outside one one. So each of the inside changes places with one of the
/// outside, and all have four of both trees. Left out are the two light ones and, of an odd number, the last slot,
/// which has two.
std::vector<int> twinOf(std::vector<int> slots) {
  if (slots.size() <= 3) return slots;  // a line, whose middle has two
  std::swap(slots[0], slots[2]);
  const size_t end = slots.size() - (slots.size() % 2 == 0 ? 1 : 2);
  for (size_t slot = 3; slot + 1 < end; slot += 2) std::swap(slots[slot], slots[slot + 1]);
  return slots;
}

std::vector<int> ncclSlots(const std::vector<double>& left) {
  const double whole = *std::max_element(left.begin(), left.end());
  std::vector<int> slots(left.size());
  std::iota(slots.begin(), slots.end(), 0);
  std::vector<int> slow = slots;
  std::stable_sort(slow.begin(), slow.end(),
                   [&](int a, int b) { return left[static_cast<size_t>(a)] < left[static_cast<size_t>(b)]; });
  std::vector<size_t> light{0, left.size() - 1};
  if (left.size() % 2 == 1) light = {1};
  bool moved = false;
  for (size_t i = 0; i < light.size() && i < slow.size(); i++) {
    if (left[static_cast<size_t>(slow[i])] >= whole) break;
    std::iter_swap(slots.begin() + static_cast<std::ptrdiff_t>(light[i]),
                   std::find(slots.begin(), slots.end(), slow[i]));
    moved = true;
  }
  return moved ? slots : std::vector<int>();
}

}  // namespace r2cc::planner
