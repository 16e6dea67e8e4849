// Version 2 of the interface (NCCL 2.24 and 2.25).
#include "versions.h"

using namespace r2cc::progress;

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v2_t ncclProfiler_v2 =
    table<ncclProfiler_v2_t, Early<ncclProfilerEventDescr_v2_t, ncclProfilerEventStateArgs_v2_t>>(initEarly);
}
