// NCCL 2.26 and 2.27.
#include "standalone/chosen_net.h"

namespace r2cc::plugin {
namespace {

ncclResult_t init(Log log, Prof profiler) { return initOnce(10, log, profiler); }

/// NCCL's own trials (bootstrap over the net, GPU Direct) come without a config.
ncclResult_t connect(int dev, Config* config, void* handle, void** sendComm, DeviceHandle**) {
  return connectOnce(trafficClassOf(config), dev, handle, sendComm);
}

}  // namespace
}  // namespace r2cc::plugin

extern "C" __attribute__((visibility("default"))) const r2cc::plugin::NetV10 ncclNetPlugin_v10;
const r2cc::plugin::NetV10 ncclNetPlugin_v10 = {
    r2cc::kPluginName,
    r2cc::plugin::init,
    r2cc::plugin::forward<&ncclNet_t::devices>,
    r2cc::plugin::properties<r2cc::plugin::PropertiesV9, r2cc::plugin::fill>,
    r2cc::plugin::listenOnce,
    r2cc::plugin::connect,
    r2cc::plugin::accept,
    r2cc::plugin::kMemory,
    r2cc::plugin::forward<&ncclNet_t::isend>,
    r2cc::plugin::forward<&ncclNet_t::irecv>,
    r2cc::plugin::kEnds,
    nullptr,  // makeVDevice: a device is one NIC, so that one can fail alone; NCCL then merges none
};
