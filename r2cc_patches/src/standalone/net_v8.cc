// NCCL 2.19 to 2.23.
#include "standalone/without_profiler.h"

namespace r2cc::plugin {
namespace {

void fillV8(PropertiesV8& to, const ncclNetProperties_t& from) { fill(to.identity, to.port, from); }

}  // namespace
}  // namespace r2cc::plugin

extern "C" __attribute__((visibility("default"))) const r2cc::plugin::NetV8 ncclNetPlugin_v8;
const r2cc::plugin::NetV8 ncclNetPlugin_v8 = {
    r2cc::kPluginName,
    r2cc::plugin::initWithoutProfiler<8>,
    r2cc::plugin::forward<&ncclNet_t::devices>,
    r2cc::plugin::properties<r2cc::plugin::PropertiesV8, r2cc::plugin::fillV8>,
    r2cc::plugin::listenOnce,
    r2cc::plugin::connectWithoutConfig,
    r2cc::plugin::accept,
    r2cc::plugin::kMemory,
    r2cc::plugin::isendWithoutProfiler<int>,
    r2cc::plugin::irecvWithoutProfiler<int>,
    r2cc::plugin::kEnds,
};
