// NCCL's binary tree (ncclGetBtree) over slots 0 .. nodes-1: slot 0 is the root, odd slots are leaves, all others have
// two children, one of them perhaps one. A second tree, in which who was inside is outside, makes it a double tree;
// half of a message goes up and down each. Two nodes are outside in both: they carry half of what the others do.
#pragma once

#include <vector>

namespace r2cc::planner {

/// -1: it is the root.
int treeParent(int nodes, int slot);
/// Hops from the root to the slot that is farthest.
int treeDepth(int nodes);
/// So many neighbours has each slot.
std::vector<int> treeDegrees(int nodes);
/// All slots, parents before their children.
std::vector<int> treeDownwards(int nodes);

/// The slots whose nodes have one neighbour in both trees of a double tree: 1 each of 4 edges that all others have. The
/// first one is a leaf of both.
struct LightSlots {
  int first = 1, second = 0;
};
LightSlots lightSlots(int nodes);
/// Who has which slot of the second tree, if these have those of the first.
std::vector<int> twinOf(std::vector<int> slots);

/// Nodes by slot of NCCL's own double tree, whose second tree is the first mirrored, or shifted by one where their
/// number is odd: then slot 1 alone is light, else the first and the last. `left`: of each node's bandwidth. Those with
/// the least left change places with who has a light slot. Empty: all stay.
std::vector<int> ncclSlots(const std::vector<double>& left);

}  // namespace r2cc::planner
