// What v11 and v12 share: a context for each communicator, which init makes and finalize ends.
#pragma once

#include "standalone/chosen_net.h"

namespace r2cc::plugin {

template <int Table>
ncclResult_t initContext(void** ctx, uint64_t commId, Config* config, Log log, Prof profiler) {
  return initChosen(Table, ctx, commId, config, log, profiler);
}

inline ncclResult_t listenContext(void* ctx, int dev, void* handle, void** listenComm) {
  void* inner = nullptr;
  if (!innerContext(ctx, &inner)) return ncclInvalidUsage;
  return forward<&ncclNet_t::listen>(inner, dev, handle, listenComm);
}

inline ncclResult_t connectContext(void* ctx, int dev, void* handle, void** sendComm, DeviceHandle**) {
  void* inner = nullptr;
  if (!innerContext(ctx, &inner)) return ncclInvalidUsage;
  return connectChosen(inner, dev, handle, sendComm);
}

template <int Table, class Net>
constexpr Net netOfContexts(decltype(Net::getProperties) getProperties) noexcept {
  return {kPluginName,
          initContext<Table>,
          forward<&ncclNet_t::devices>,
          getProperties,
          listenContext,
          connectContext,
          accept,
          kMemory,
          forward<&ncclNet_t::isend>,
          forward<&ncclNet_t::irecv>,
          kEnds,
          nullptr,  // makeVDevice: a device is one NIC, so that one can fail alone; NCCL then merges none
          finalizeChosen,
          nullptr};  // setNetAttr: hints that neither transport takes
}

}  // namespace r2cc::plugin
