// Version 5 of the interface (NCCL 2.28).
#include "versions.h"

using namespace r2cc::progress;

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v5_t ncclProfiler_v5 =
    table<ncclProfiler_v5_t, Late<ncclProfilerEventDescr_v5_t, ncclProfilerEventStateArgs_v5_t>>(initLate<>);
}
