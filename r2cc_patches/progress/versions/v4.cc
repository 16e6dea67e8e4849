// Version 4 of the interface (NCCL 2.27).
#include "versions.h"

using namespace r2cc::progress;

namespace {

ncclResult_t init(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                  ncclDebugLogger_t logger) {
  return initLate(context, hash, mask, name, nodes, ranks, rank, logger);
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v4_t ncclProfiler_v4 =
    table<ncclProfiler_v4_t, Late<ncclProfilerEventDescr_v4_t, ncclProfilerEventStateArgs_v4_t>>(init);
}
