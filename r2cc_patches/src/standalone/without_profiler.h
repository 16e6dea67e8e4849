// What v8 and v9 share: neither a profiler nor a config comes from NCCL. Their sizes differ: int, then size_t.
#pragma once

#include <algorithm>
#include <type_traits>

#include "standalone/chosen_net.h"

namespace r2cc::plugin {

inline ncclResult_t noProfiler(void**, int, void*, int64_t, void*) { return ncclSuccess; }

template <int Table>
ncclResult_t initWithoutProfiler(Log log) {
  return initOnce(Table, log, noProfiler);
}

inline ncclResult_t connectWithoutConfig(int dev, void* handle, void** sendComm, DeviceHandle**) {
  return connectOnce(NCCL_NET_TRAFFIC_CLASS_UNDEF, dev, handle, sendComm);
}

template <class Size>
ncclResult_t isendWithoutProfiler(void* comm, void* data, Size size, int tag, void* mr, void** request) {
  if constexpr (std::is_signed_v<Size>) {
    if (size < 0) return ncclInvalidArgument;
  }
  return forward<&ncclNet_t::isend>(comm, data, static_cast<size_t>(size), tag, mr, nullptr, request);
}

template <class Size>
ncclResult_t irecvWithoutProfiler(void* comm, int n, void** data, Size* sizes, int* tags, void** mrs, void** request) {
  size_t wide[NCCL_NET_MAX_REQUESTS];
  void* profilers[NCCL_NET_MAX_REQUESTS] = {nullptr};
  if (n < 1 || n > NCCL_NET_MAX_REQUESTS || *std::min_element(sizes, sizes + n) < Size{0}) return ncclInvalidArgument;
  std::copy_n(sizes, n, wide);
  return forward<&ncclNet_t::irecv>(comm, n, data, wide, tags, mrs, profilers, request);
}

}  // namespace r2cc::plugin
