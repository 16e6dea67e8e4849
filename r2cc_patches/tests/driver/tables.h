// The plugin's tables, each called as the NCCL that looks for it does. The declarations are NCCL's own as far as the
// pinned one has them, so that the plugin's are compared with them wherever a call goes through.
#pragma once

#include <atomic>
#include <string>

#include "nccl_net.h"

namespace r2cc::driver {

// What the net told NCCL's profiler of a connection's messages: their handle, from table 10 on.
using Events = std::atomic<uint64_t>;

constexpr int kOldestTable = 8, kNewestTable = 12;

// The plugin's table of that version, behind the calls of our NCCL's own. Throws bench::TransportError when it has
// none.
const ncclNet_t& pluginTable(const std::string& library, int version);

}  // namespace r2cc::driver
