// Version 6 of the interface (NCCL 2.29 and later). New: collectives that copy engines do, within a host.
#include "versions.h"

using namespace r2cc::progress;

namespace {

struct WithCopyEngines : Late<ncclProfilerEventDescr_v6_t, ncclProfilerEventStateArgs_v6_t> {
  static void* startOther(void* context, const Event& event) {
    if (event.type != ncclProfileCeColl) return nullptr;
    return Core::ours().task(context, event.ceColl.count * bytesOf(event.ceColl.datatype));
  }
};

}  // namespace

extern "C" {
__attribute__((visibility("default"))) ncclProfiler_v6_t ncclProfiler_v6 =
    table<ncclProfiler_v6_t, WithCopyEngines>(initLate<kWatched | ncclProfileCeColl>);
}
