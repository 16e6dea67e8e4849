// NCCL 2.24 and 2.25.
#include "standalone/without_profiler.h"

extern "C" __attribute__((visibility("default"))) const r2cc::plugin::NetV9 ncclNetPlugin_v9;
const r2cc::plugin::NetV9 ncclNetPlugin_v9 = {
    r2cc::kPluginName,
    r2cc::plugin::initWithoutProfiler<9>,
    r2cc::plugin::forward<&ncclNet_t::devices>,
    r2cc::plugin::properties<r2cc::plugin::PropertiesV9, r2cc::plugin::fill>,
    r2cc::plugin::listenOnce,
    r2cc::plugin::connectWithoutConfig,
    r2cc::plugin::accept,
    r2cc::plugin::kMemory,
    r2cc::plugin::isendWithoutProfiler<size_t>,
    r2cc::plugin::irecvWithoutProfiler<size_t>,
    r2cc::plugin::kEnds,
    nullptr,  // makeVDevice: a device is one NIC, so that one can fail alone; NCCL then merges none
};
