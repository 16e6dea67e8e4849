// The plugin's contexts: what NCCL ends without having it is not counted.
#include <cstdlib>

#include "check.h"
#include "net/nccl_profiler.h"
#include "net/net_process.h"
#include "standalone/net_tables.h"

extern "C" const r2cc::plugin::NetV11 ncclNetPlugin_v11;

namespace {

using namespace r2cc;

bool engineRuns() { return NetProcess::instance().engine() != nullptr; }

/// A communicator of the plugin's; null when its init failed.
void* communicator() {
  void* ctx = nullptr;
  plugin::Config config{-1};
  const ncclResult_t result = ncclNetPlugin_v11.init(&ctx, 1, &config, nullptr, nullptr);
  CHECK((result == ncclSuccess) == (ctx != nullptr));
  return ctx;
}

}  // namespace

// NCCL 2.28 to 2.29.3 calls finalize after an init that failed, too.
TEST(contexts_that_init_did_not_give_are_not_counted_down) {
  setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
  setenv("R2CC_ASSUME_DOWN", "no-such-entry", 1);
  CHECK(communicator() == nullptr);
  CHECK_EQ(ncclNetPlugin_v11.finalize(nullptr), ncclSuccess);
  unsetenv("R2CC_ASSUME_DOWN");

  void* first = communicator();
  void* second = communicator();
  CHECK(first != nullptr && second != nullptr && first != second && engineRuns());
  CHECK_EQ(ncclNetPlugin_v11.finalize(nullptr), ncclSuccess);  // of a third, whose init failed
  CHECK_EQ(ncclNetPlugin_v11.finalize(first), ncclSuccess);
  CHECK_EQ(ncclNetPlugin_v11.finalize(first), ncclSuccess);
  CHECK(engineRuns());
  char handle[NCCL_NET_HANDLE_MAXSIZE];
  void* listener = nullptr;
  CHECK_EQ(ncclNetPlugin_v11.listen(first, 0, handle, &listener), ncclInvalidUsage);
  CHECK_EQ(ncclNetPlugin_v11.listen(second, 0, handle, &listener), ncclSuccess);
  CHECK_EQ(ncclNetPlugin_v11.ends.closeListen(listener), ncclSuccess);
  CHECK_EQ(ncclNetPlugin_v11.finalize(second), ncclSuccess);
  CHECK(!engineRuns());
}

TEST(contexts_nccls_profiler_is_called_for_its_own_messages_alone) {
  static int calls;
  calls = 0;
  NcclProfiler::use([](void** event, int type, void* handle, int64_t, void*) {
    calls++;
    if (type == ncclProfilerNetEventStart) *event = static_cast<int*>(handle) + 1;  // as NCCL, unasked
    return ncclSuccess;
  });
  int own[2] = {};
  void* event = own;  // of an earlier request
  CHECK_EQ(NcclProfiler::call(&event, ncclProfilerNetEventStart, nullptr, 0, nullptr), ncclSuccess);
  CHECK(event == nullptr);
  CHECK_EQ(NcclProfiler::call(&event, ncclProfilerNetEventStop, nullptr, 0, nullptr), ncclSuccess);
  CHECK_EQ(calls, 0);
  CHECK_EQ(NcclProfiler::call(&event, ncclProfilerNetEventStart, own, 0, nullptr), ncclSuccess);
  CHECK(event == &own[1]);
  CHECK_EQ(NcclProfiler::call(&event, ncclProfilerNetEventStop, nullptr, 0, nullptr), ncclSuccess);
  CHECK_EQ(calls, 2);
  NcclProfiler::use(nullptr);
  CHECK_EQ(NcclProfiler::call(&event, ncclProfilerNetEventStart, own, 0, nullptr), ncclSuccess);
}
