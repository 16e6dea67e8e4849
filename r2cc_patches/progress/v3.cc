// Version 3 of the interface (NCCL 2.26).
#include "versions.h"

namespace r2cc::progress {
namespace {

using V3 = Profiler<Early<ncclProfilerEventDescr_v3_t, ncclProfilerEventStateArgs_v3_t>>;

ncclResult_t init(void** context, int* mask) { return watch(context, mask, nullptr); }

}  // namespace
}  // namespace r2cc::progress

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v3_t ncclProfiler_v3 =
    r2cc::progress::table<ncclProfiler_v3_t, r2cc::progress::V3>(r2cc::progress::init);
}
