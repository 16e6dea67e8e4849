#include "standalone/other_net.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "engine/config.h"
#include "inner/inner_net.h"
#include "inner/r2cc_fence.h"
#include "net/r2cc_net.h"

namespace r2cc::plugin {
namespace {

using TableV11 = ncclNet_v11_t;

/// What the plugin exports, once it is loaded.
const TableV11* theirs = nullptr;

const char* setting() {
  const char* path = getenv("R2CC_INNER_PLUGIN");
  return path == nullptr ? "" : path;
}

void warn(ncclDebugLogger_t log, const std::string& text) {
  if (log != nullptr) log(NCCL_LOG_WARN, NCCL_NET, "r2cc", 0, "%s", text.c_str());
}

// NCCL always gives connect and accept a place for a device's handle. R2CC has none to give on.
ncclResult_t connect(void* ctx, int dev, void* handle, void** comm, ncclNetDeviceHandle_v11_t**) {
  ncclNetDeviceHandle_v11_t* device = nullptr;
  return theirs->connect(ctx, dev, handle, comm, &device);
}
ncclResult_t accept(void* listenComm, void** comm, ncclNetDeviceHandle_v11_t**) {
  ncclNetDeviceHandle_v11_t* device = nullptr;
  return theirs->accept(listenComm, comm, &device);
}

ncclResult_t init(void** ctx, uint64_t commId, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                  ncclProfilerCallback_t profiler) {
  ncclNetCommConfig_v11_t own{config == nullptr ? NCCL_NET_TRAFFIC_CLASS_UNDEF : config->trafficClass};
  return theirs->init(ctx, commId, &own, log, profiler);
}

/// Field by field: a pinned NCCL from 2.30 on has more of them.
ncclResult_t properties(int dev, ncclNetProperties_t* to) {
  ncclNetProperties_v11_t from{};
  const ncclResult_t result = theirs->getProperties(dev, &from);
  if (result != ncclSuccess) return result;
  *to = {};
  to->name = from.name, to->pciPath = from.pciPath, to->guid = from.guid;
  to->ptrSupport = from.ptrSupport, to->regIsGlobal = from.regIsGlobal, to->forceFlush = from.forceFlush;
  to->speed = from.speed, to->port = from.port, to->latency = from.latency;
  to->maxComms = from.maxComms, to->maxRecvs = from.maxRecvs;
  to->netDeviceType = from.netDeviceType, to->netDeviceVersion = from.netDeviceVersion;
  to->vProps.ndevs = from.vProps.ndevs;
  for (int i = 0; i < from.vProps.ndevs; i++) to->vProps.devs[i] = from.vProps.devs[i];
  to->maxP2pBytes = from.maxP2pBytes, to->maxCollBytes = from.maxCollBytes;
  to->maxMultiRequestSize = from.maxMultiRequestSize;
  return ncclSuccess;
}

ncclNet_t asPinned(const TableV11& from) {
  ncclNet_t to{};
  to.name = from.name, to.init = init, to.devices = from.devices, to.getProperties = properties;
  to.listen = from.listen, to.connect = connect, to.accept = accept;
  to.regMr = from.regMr, to.regMrDmaBuf = from.regMrDmaBuf, to.deregMr = from.deregMr;
  to.isend = from.isend, to.irecv = from.irecv, to.iflush = from.iflush, to.test = from.test;
  to.closeSend = from.closeSend, to.closeRecv = from.closeRecv, to.closeListen = from.closeListen;
  to.finalize = from.finalize;
  return to;
}

InnerOps asOps(const r2ccFence_v1_t& fence) {
  InnerOps ops;
  ops.fence = fence.fence;
  ops.cancelConnect = fence.cancelConnect;
  ops.cancelListen = fence.cancelListen;
  ops.needsAck = fence.needsAck;
  ops.interfaceOf = fence.interfaceOf;
  ops.fenceMayWait = true;  // nobody knows how long others take
  return ops;
}

/// Empty when a net can be fenced, or why not.
std::string whyNotFenced(const r2ccFence_v1_t* fence) {
  if (fence == nullptr) return "has no symbol " R2CC_FENCE_V1_SYMBOL;
  if (fence->size < sizeof(*fence)) return "has an " R2CC_FENCE_V1_SYMBOL " of another size (r2cc_fence.h)";
  const bool whole = fence->fence != nullptr && fence->cancelConnect != nullptr && fence->cancelListen != nullptr;
  return whole ? "" : "has an " R2CC_FENCE_V1_SYMBOL " without fence, cancelConnect or cancelListen";
}

ncclNet_t* load(ncclDebugLogger_t log) {
  const std::string path = setting();
  if (path.empty()) return nullptr;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // as NCCL does
  if (library == nullptr) {
    const char* why = dlerror();
    return refuseOtherNet(log, why == nullptr ? "it cannot be opened" : why), nullptr;
  }
  if (dlsym(library, "r2ccBuildId") != nullptr) return refuseOtherNet(log, "it is R2CC itself"), nullptr;
  theirs = static_cast<const TableV11*>(dlsym(library, "ncclNetPlugin_v11"));
  if (theirs == nullptr) return refuseOtherNet(log, "it exports no ncclNetPlugin_v11"), nullptr;
  const auto* fence = static_cast<const r2ccFence_v1_t*>(dlsym(library, R2CC_FENCE_V1_SYMBOL));
  const std::string why = whyNotFenced(fence);
  if (!why.empty() && Config::fromEnvironment().mode != 0) {
    warn(log, "R2CC: not in the path: the net " + std::string(theirs->name) + " of R2CC_INNER_PLUGIN=" + path + " " +
                  why + ", so it is passed through as it is and no fault is survived. Its maker can mend that");
  }
  return r2ccTakeOtherNet(asPinned(*theirs), why.empty() ? asOps(*fence) : InnerOps{});
}

}  // namespace

ncclNet_t* otherNet(ncclDebugLogger_t log) {
  static ncclNet_t* const net = load(log);
  return net;
}

void refuseOtherNet(ncclDebugLogger_t log, const char* why) {
  warn(log,
       "R2CC: R2CC_INNER_PLUGIN=" + std::string(setting()) + " cannot be used: " + why +
           ". R2CC goes on with its own nets. Set it to the path of a net plugin that works on this host, alike on "
           "all ranks, or unset it");
}

}  // namespace r2cc::plugin
