// NCCL's callback for events of the net, as inner nets see it.
#pragma once

#include <atomic>

#include "nccl_net.h"

namespace r2cc {

/// What the engine receives for itself during a failover is no event of NCCL's: it has no handle, and NCCL's callback
/// reads the handle unasked. NCCL has one callback for a process.
class NcclProfiler {
 public:
  static void use(ncclProfilerCallback_t callback) { theirs_ = callback; }

  static ncclResult_t call(void** event, int type, void* handle, int64_t net, void* data) {
    const ncclProfilerCallback_t callback = theirs_;
    const bool starts = type == ncclProfilerNetEventStart;
    if (starts && handle == nullptr) *event = nullptr;
    if (callback == nullptr || (starts ? handle : *event) == nullptr) return ncclSuccess;
    return callback(event, type, handle, net, data);
  }

 private:
  inline static std::atomic<ncclProfilerCallback_t> theirs_{nullptr};
};

}  // namespace r2cc
