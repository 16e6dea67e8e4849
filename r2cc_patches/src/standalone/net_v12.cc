// NCCL from 2.30 on.
#include "standalone/contexts.h"

namespace r2cc::plugin {
namespace {

constexpr int16_t kUnknown = -1;  // NCCL then goes by its own topology, as with an older table

/// Rail and plane: of a pinned NCCL whose transports know them.
template <class Properties>
auto fillRail(PropertiesV12& to, const Properties& from, int) -> decltype(from.railId, void()) {
  to.rail = from.railId;
  to.plane = from.planeId;
}
template <class Properties>
void fillRail(PropertiesV12& to, const Properties&, long) {
  to.rail = to.plane = kUnknown;
}

void fillV12(PropertiesV12& to, const ncclNetProperties_t& from) {
  fill(to, from);
  to.maxMultiRequestSize = from.maxMultiRequestSize;
  fillRail(to, from, 0);
}

}  // namespace
}  // namespace r2cc::plugin

extern "C" __attribute__((visibility("default"))) const r2cc::plugin::NetV12 ncclNetPlugin_v12;
const r2cc::plugin::NetV12 ncclNetPlugin_v12 = r2cc::plugin::netOfContexts<12, r2cc::plugin::NetV12>(
    r2cc::plugin::properties<r2cc::plugin::PropertiesV12, r2cc::plugin::fillV12>);
