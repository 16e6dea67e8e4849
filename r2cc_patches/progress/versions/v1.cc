// Version 1 of the interface (NCCL 2.23).
#include "versions.h"

using namespace r2cc::progress;

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v1_t ncclProfiler_v1 =
    table<ncclProfiler_v1_t, Early<ncclProfilerEventDescr_v1_t, ncclProfilerEventStateArgs_v1_t>>(initEarly);
}
