// What NCCL's own table of costs says of collectives on this communicator, for the planner: what would run without a
// schedule, and what its tree kernel costs a chain.
#pragma once

#include <string>
#include <vector>

#include "comm.h"
#include "planner/planner.h"

namespace r2cc::schedules {

/// NCCL's algorithms and protocols that may be chosen here, each with its times at 1, 2, 4, ... bytes. A plug-in for
/// tuning may know better than the table: then nothing is held against a schedule but what bandwidth allows at least.
std::vector<planner::Rival> rivalsOf(ncclComm* comm, ncclFunc_t func);

/// Of chains on this communicator. `leastChunkBytes`, `mostChunkBytes`: of what a chain hands on.
planner::Cost costOf(const ncclComm* comm, int leastChunkBytes, int mostChunkBytes);

/// As rivals are named.
std::string nameOf(int algorithm, int protocol);

}  // namespace r2cc::schedules
