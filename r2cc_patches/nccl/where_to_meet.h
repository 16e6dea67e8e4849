// The address on which this rank's agreement listens and from which it calls.
#pragma once

#include <string>

namespace r2cc::schedules {

/// R2CC_SIDE_IFNAME's where that is set, else the one that NCCL's bootstrap uses. Throws std::runtime_error.
std::string whereToMeet();

}  // namespace r2cc::schedules
