// The net of another vendor's plugin under ours: R2CC_INNER_PLUGIN=/path/libother.so. It is wrapped when it can be
// fenced (r2cc_fence.h), and passed through as it is when it cannot.
#pragma once

#include "nccl_net.h"

namespace r2cc::plugin {

/// Null where the setting is empty, or names no net that can be used: that is said once. Loads it at the first call,
/// under chosen_net's mutex. A plugin stays loaded.
ncclNet_t* otherNet(ncclDebugLogger_t log);
/// Says once that it is not used after all.
void refuseOtherNet(ncclDebugLogger_t log, const char* why);

}  // namespace r2cc::plugin
