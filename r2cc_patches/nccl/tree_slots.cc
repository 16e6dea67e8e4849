#include "tree_slots.h"

#include <algorithm>

#include "peer_terms.h"
#include "planner/shapes/tree.h"
#include "r2cc_nccl.h"
#include "settings.h"
#include "trees.h"

namespace r2cc::schedules {

std::vector<int> treeSlots(const ncclComm* comm) {
  constexpr int kFewestNodes = 3;
  if (Settings::get().mode < 3 || comm->nNodes < kFewestNodes) return {};
  std::vector<double> left(static_cast<size_t>(comm->nNodes), 1);
  for (int rank = 0; rank < comm->nRanks; rank++) {
    double& node = left[static_cast<size_t>(comm->rankToNode[rank])];
    node = std::min(node, leftOf(comm->peerInfo[rank]));
  }
  return planner::ncclSlots(left);
}

}  // namespace r2cc::schedules

ncclResult_t r2ccGetDtree(const struct ncclComm* comm, int nodes, int node, int* up0, int* down00, int* down01,
                          int* which0, int* up1, int* down10, int* down11, int* which1) {
  const std::vector<int> slots = r2cc::schedules::treeSlots(comm);
  int slot = node;
  if (!slots.empty()) slot = static_cast<int>(std::find(slots.begin(), slots.end(), node) - slots.begin());
  NCCLCHECK(ncclGetDtree(nodes, slot, up0, down00, down01, which0, up1, down10, down11, which1));
  for (int* other : {up0, down00, down01, up1, down10, down11}) {
    if (!slots.empty() && *other >= 0) *other = slots[static_cast<size_t>(*other)];
  }
  return ncclSuccess;
}
