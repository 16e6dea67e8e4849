// ncclNetPlugin_v11 (or _v12): the stand-alone library as a net plugin for a stock NCCL. Like NCCL itself it takes InfiniBand
// where there is some and sockets elsewhere, each wrapped as R2CC_MODE says.
#include <mutex>

#include "net/r2cc_net.h"
#include "net/table_version.h"

extern ncclNet_t ncclNetIb;
extern ncclNet_t ncclNetSocket;

namespace {

ncclNet_t*& chosen() {
  static ncclNet_t* net = nullptr;
  return net;
}

/// The same call on the chosen net, whatever its arguments.
template <auto Member, class Type>
struct Forward;
template <auto Member, class... Args>
struct Forward<Member, ncclResult_t (*ncclNet_t::*)(Args...)> {
  static ncclResult_t call(Args... args) {
    if (chosen() == nullptr) return ncclInvalidUsage;  // before init
    const auto function = chosen()->*Member;
    return function == nullptr ? ncclInternalError : function(args...);
  }
};
template <auto Member>
constexpr auto forward = Forward<Member, decltype(Member)>::call;

ncclResult_t tryNet(ncclNet_t* inner, void** ctx, uint64_t id, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                    ncclProfilerCallback_t profiler) {
  ncclNet_t* net = r2ccWrapNet(inner);
  if (net->init(ctx, id, config, log, profiler) != ncclSuccess) return ncclSystemError;
  int devices = 0;
  if (net->devices(&devices) == ncclSuccess && devices > 0) {
    chosen() = net;
    return ncclSuccess;
  }
  (void)net->finalize(*ctx);
  return ncclSystemError;
}

ncclResult_t init(void** ctx, uint64_t id, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                  ncclProfilerCallback_t profiler) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (chosen() != nullptr) return chosen()->init(ctx, id, config, log, profiler);
  if (tryNet(&ncclNetIb, ctx, id, config, log, profiler) == ncclSuccess) return ncclSuccess;
  return tryNet(&ncclNetSocket, ctx, id, config, log, profiler);
}

ncclResult_t noVirtualDevices(int*, ncclNetVDeviceProps_t*) { return ncclInvalidUsage; }

}  // namespace

extern "C" __attribute__((visibility("default"))) ncclNet_t R2CC_NET_PLUGIN;
ncclNet_t R2CC_NET_PLUGIN = {
    "R2CC",
    init,
    forward<&ncclNet_t::devices>,
    forward<&ncclNet_t::getProperties>,
    forward<&ncclNet_t::listen>,
    forward<&ncclNet_t::connect>,
    forward<&ncclNet_t::accept>,
    forward<&ncclNet_t::regMr>,
    forward<&ncclNet_t::regMrDmaBuf>,
    forward<&ncclNet_t::deregMr>,
    forward<&ncclNet_t::isend>,
    forward<&ncclNet_t::irecv>,
    forward<&ncclNet_t::iflush>,
    forward<&ncclNet_t::test>,
    forward<&ncclNet_t::closeSend>,
    forward<&ncclNet_t::closeRecv>,
    forward<&ncclNet_t::closeListen>,
    nullptr,  // getDeviceMr
    nullptr,  // irecvConsumed
    noVirtualDevices,
    forward<&ncclNet_t::finalize>,
    nullptr,  // setNetAttr
};
