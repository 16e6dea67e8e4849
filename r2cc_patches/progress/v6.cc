// Version 6 of the interface (NCCL 2.29 and later). New: collectives that copy engines do, within a host.
#include "versions.h"

namespace r2cc::progress {
namespace {

struct WithCopyEngines : Late<ncclProfilerEventDescr_v6_t, ncclProfilerEventStateArgs_v6_t> {
  static void* startOther(void* context, const Event& event) {
    if (event.type != ncclProfileCeColl) return nullptr;
    return Core::ours().task(context, event.ceColl.count * bytesOf(event.ceColl.datatype));
  }
};
using V6 = Profiler<WithCopyEngines>;

ncclResult_t init(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                  ncclDebugLogger_t) {
  const Identity identity{hash, name == nullptr ? "" : name, rank, ranks, nodes};
  return watch(context, mask, &identity, kWatched | ncclProfileCeColl);
}

}  // namespace
}  // namespace r2cc::progress

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v6_t ncclProfiler_v6 =
    r2cc::progress::table<ncclProfiler_v6_t, r2cc::progress::V6>(r2cc::progress::init);
}
