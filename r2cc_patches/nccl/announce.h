// Once a communicator is there, its rank 0 says in NCCL's log whether R2CC is in the path, and what is not protected.
#pragma once

#include "comm.h"

namespace r2cc {

void announce(const ncclComm& comm);

}  // namespace r2cc
