// Version 1 of the interface (NCCL 2.23).
#include "versions.h"

namespace r2cc::progress {
namespace {

using V1 = Profiler<Early<ncclProfilerEventDescr_v1_t, ncclProfilerEventStateArgs_v1_t>>;

ncclResult_t init(void** context, int* mask) { return watch(context, mask, nullptr); }

}  // namespace
}  // namespace r2cc::progress

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v1_t ncclProfiler_v1 =
    r2cc::progress::table<ncclProfiler_v1_t, r2cc::progress::V1>(r2cc::progress::init);
}
