// Which node has which slot of NCCL's own double tree. Two slots of it (of an odd number of nodes one) carry half of
// what the others do: nodes that lost NICs before the communicator was made get these. All ranks decide alike, by what
// they told each other first of all (peer_terms.h).
#pragma once

#include <vector>

#include "comm.h"

namespace r2cc::schedules {

/// Nodes by slot; empty where all are in their order: under another mode than 3, or where nobody lost anything.
std::vector<int> treeSlots(const ncclComm* comm);

}  // namespace r2cc::schedules
