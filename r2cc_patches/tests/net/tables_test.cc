// Our declarations of NCCL's net tables against its own, as far as the pinned NCCL has them.
#include <string>

#include "check.h"
#include "net/r2cc_net.h"
#include "standalone/nccl_version.h"
#include "standalone/net_tables.h"

extern "C" {
extern const r2cc::plugin::NetV8 ncclNetPlugin_v8;
extern const r2cc::plugin::NetV9 ncclNetPlugin_v9;
extern const r2cc::plugin::NetV10 ncclNetPlugin_v10;
extern const r2cc::plugin::NetV11 ncclNetPlugin_v11;
extern const r2cc::plugin::NetV12 ncclNetPlugin_v12;
}

namespace {

using namespace r2cc::plugin;

template <class Net>
bool drivenByHost(const Net& net) {
  return net.ends.getDeviceMr == nullptr && net.ends.irecvConsumed == nullptr;
}

#define SAME_PLACE(ours, field, theirs, name) static_assert(offsetof(ours, field) == offsetof(theirs, name))

static_assert(sizeof(PropertiesV8) == sizeof(ncclNetProperties_v8_t));
static_assert(sizeof(PropertiesV9) == sizeof(ncclNetProperties_v9_t));
static_assert(sizeof(PropertiesV9) == sizeof(ncclNetProperties_v10_t));
static_assert(sizeof(PropertiesV11) == sizeof(ncclNetProperties_v11_t));
SAME_PLACE(PropertiesV8, port.maxRecvs, ncclNetProperties_v8_t, maxRecvs);
SAME_PLACE(PropertiesV9, port.speed, ncclNetProperties_v9_t, speed);
SAME_PLACE(PropertiesV9, mostBytes, ncclNetProperties_v10_t, maxP2pBytes);
SAME_PLACE(PropertiesV11, parts, ncclNetProperties_v11_t, vProps);
SAME_PLACE(PropertiesV11, maxMultiRequestSize, ncclNetProperties_v11_t, maxMultiRequestSize);
static_assert(sizeof(Config) == sizeof(ncclNetCommConfig_v11_t) && sizeof(Hints) == sizeof(ncclNetAttr_v11_t));

static_assert(sizeof(NetV8) == sizeof(ncclNet_v8_t) && sizeof(NetV9) == sizeof(ncclNet_v9_t));
static_assert(sizeof(NetV10) == sizeof(ncclNet_v10_t) && sizeof(NetV11) == sizeof(ncclNet_v11_t));
SAME_PLACE(NetV8, memory.deregMr, ncclNet_v8_t, deregMr);
SAME_PLACE(NetV8, ends.irecvConsumed, ncclNet_v8_t, irecvConsumed);
SAME_PLACE(NetV9, irecv, ncclNet_v9_t, irecv);
SAME_PLACE(NetV9, makeVDevice, ncclNet_v9_t, makeVDevice);
SAME_PLACE(NetV10, connect, ncclNet_v10_t, connect);
SAME_PLACE(NetV10, ends.test, ncclNet_v10_t, test);
SAME_PLACE(NetV11, finalize, ncclNet_v11_t, finalize);
SAME_PLACE(NetV11, setNetAttr, ncclNet_v11_t, setNetAttr);

#ifdef NCCL_NET_MAX_DEVS_PER_NIC_V12  // a pinned NCCL from 2.30 on
static_assert(sizeof(PropertiesV12) == sizeof(ncclNetProperties_v12_t) && sizeof(NetV12) == sizeof(ncclNet_v12_t));
SAME_PLACE(PropertiesV12, mostBytes, ncclNetProperties_v12_t, maxP2pBytes);
SAME_PLACE(PropertiesV12, rail, ncclNetProperties_v12_t, railId);
SAME_PLACE(PropertiesV12, plane, ncclNetProperties_v12_t, planeId);
SAME_PLACE(NetV12, finalize, ncclNet_v12_t, finalize);
#endif

#undef SAME_PLACE

}  // namespace

TEST(tables_a_line_says_which_nccl_took_which) {
  CHECK(describe(22907, 11) == "R2CC: NCCL 2.29.7 uses net table v11");
  CHECK(describe(22809, 11).find("ties GIN to its own IB net") != std::string::npos);
  CHECK(describe(0, 8) == "R2CC: net table v8 of an NCCL that does not say its version");
  CHECK(describe(24000, 12).find("R2CC: NCCL 2.40.0 uses net table v12; R2CC knows NCCL up to ") == 0);
}

/// docs/reference/coverage.md: merged NICs and device offload are off, so that NCCL does not ask for them.
TEST(tables_have_no_merged_nics_and_no_device_offload) {
  CHECK(drivenByHost(ncclNetPlugin_v8) && drivenByHost(ncclNetPlugin_v9) && drivenByHost(ncclNetPlugin_v10));
  CHECK(drivenByHost(ncclNetPlugin_v11) && drivenByHost(ncclNetPlugin_v12));
  CHECK(ncclNetPlugin_v9.makeVDevice == nullptr && ncclNetPlugin_v10.makeVDevice == nullptr);
  CHECK(ncclNetPlugin_v11.makeVDevice == nullptr && ncclNetPlugin_v12.makeVDevice == nullptr);
  for (const char* inner : {"Socket", "IB"}) {
    const auto* fork = static_cast<const ncclNet_t*>(r2ccNetGet(inner));
    CHECK(fork->makeVDevice == nullptr && fork->getDeviceMr == nullptr && fork->irecvConsumed == nullptr);
  }
}
