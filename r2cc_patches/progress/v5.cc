// Version 5 of the interface (NCCL 2.28).
#include "versions.h"

namespace r2cc::progress {
namespace {

using V5 = Profiler<Late<ncclProfilerEventDescr_v5_t, ncclProfilerEventStateArgs_v5_t>>;

ncclResult_t init(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                  ncclDebugLogger_t) {
  const Identity identity{hash, name == nullptr ? "" : name, rank, ranks, nodes};
  return watch(context, mask, &identity);
}

}  // namespace
}  // namespace r2cc::progress

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v5_t ncclProfiler_v5 =
    r2cc::progress::table<ncclProfiler_v5_t, r2cc::progress::V5>(r2cc::progress::init);
}
