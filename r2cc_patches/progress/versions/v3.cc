// Version 3 of the interface (NCCL 2.26).
#include "versions.h"

using namespace r2cc::progress;

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v3_t ncclProfiler_v3 =
    table<ncclProfiler_v3_t, Early<ncclProfilerEventDescr_v3_t, ncclProfilerEventStateArgs_v3_t>>(initEarly);
}
