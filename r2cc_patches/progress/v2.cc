// Version 2 of the interface (NCCL 2.24 and 2.25).
#include "versions.h"

namespace r2cc::progress {
namespace {

using V2 = Profiler<Early<ncclProfilerEventDescr_v2_t, ncclProfilerEventStateArgs_v2_t>>;

ncclResult_t init(void** context, int* mask) { return watch(context, mask, nullptr); }

}  // namespace
}  // namespace r2cc::progress

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v2_t ncclProfiler_v2 =
    r2cc::progress::table<ncclProfiler_v2_t, r2cc::progress::V2>(r2cc::progress::init);
}
