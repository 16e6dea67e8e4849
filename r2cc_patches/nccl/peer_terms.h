// What a user sets of R2CC that must be alike on all ranks, and the build. It travels in what NCCL's ranks tell each
// other first of all: a rank in another mode would take no part in a gathering of our own, and the others would wait
// for it.
#pragma once

#include <string>

#include "transport.h"

namespace r2cc::schedules {

/// Empty with R2CC_MODE=0.
std::string localTerms();
/// Empty where all are alike, and where all ranks are on one host: nothing of ours is between them.
std::string differenceOf(const ncclPeerInfo* peers, int ranks);

}  // namespace r2cc::schedules
