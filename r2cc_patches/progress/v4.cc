// Version 4 of the interface (NCCL 2.27).
#include "versions.h"

namespace r2cc::progress {
namespace {

using V4 = Profiler<Late<ncclProfilerEventDescr_v4_t, ncclProfilerEventStateArgs_v4_t>>;

ncclResult_t init(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                  ncclDebugLogger_t) {
  const Identity identity{hash, name == nullptr ? "" : name, rank, ranks, nodes};
  return watch(context, mask, &identity);
}

}  // namespace
}  // namespace r2cc::progress

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v4_t ncclProfiler_v4 =
    r2cc::progress::table<ncclProfiler_v4_t, r2cc::progress::V4>(r2cc::progress::init);
}
