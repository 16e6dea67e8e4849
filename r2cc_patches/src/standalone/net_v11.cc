// NCCL 2.28 and 2.29.
#include "standalone/contexts.h"

namespace r2cc::plugin {
namespace {

void fillV11(PropertiesV11& to, const ncclNetProperties_t& from) {
  fill(to, from);
  to.maxMultiRequestSize = from.maxMultiRequestSize;
}

}  // namespace
}  // namespace r2cc::plugin

extern "C" __attribute__((visibility("default"))) const r2cc::plugin::NetV11 ncclNetPlugin_v11;
const r2cc::plugin::NetV11 ncclNetPlugin_v11 = r2cc::plugin::netOfContexts<11, r2cc::plugin::NetV11>(
    r2cc::plugin::properties<r2cc::plugin::PropertiesV11, r2cc::plugin::fillV11>);
