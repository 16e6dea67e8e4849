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

}  // namespace r2cc::planner
