// A net plugin as another vendor would make one: the fork's sockets as they are, behind a table of its own.
#include "nccl_net.h"

extern ncclNet_t ncclNetSocket;

namespace {

ncclResult_t properties(int dev, ncclNetProperties_v11_t* to) {
  ncclNetProperties_t from{};
  const ncclResult_t result = ncclNetSocket.getProperties(dev, &from);
  *to = {};
  to->name = from.name, to->pciPath = from.pciPath, to->guid = from.guid, to->ptrSupport = from.ptrSupport;
  to->speed = from.speed, to->port = from.port, to->maxComms = from.maxComms, to->maxRecvs = from.maxRecvs;
  to->vProps = {1, {dev}};
  to->maxP2pBytes = from.maxP2pBytes, to->maxCollBytes = from.maxCollBytes;
  return result;
}

ncclProfilerCallback_t ncclsProfiler = nullptr;

// As NCCL's own nets do when they are built with profiling: an event for each message, whatever its handle is.
ncclResult_t profiled(ncclResult_t result, void* handle, void* const* request) {
  void* event = nullptr;
  if (result != ncclSuccess || *request == nullptr) return result;
  const ncclResult_t started = ncclsProfiler(&event, ncclProfilerNetEventStart, handle, 0, nullptr);
  return started != ncclSuccess ? started : ncclsProfiler(&event, ncclProfilerNetEventStop, nullptr, 0, nullptr);
}
ncclResult_t isend(void* comm, void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
  return profiled(ncclNetSocket.isend(comm, data, size, tag, mr, profiler, request), profiler, request);
}
ncclResult_t irecv(void* comm, int n, void** data, size_t* sizes, int* tags, void** mrs, void** profilers,
                   void** request) {
  const ncclResult_t result = ncclNetSocket.irecv(comm, n, data, sizes, tags, mrs, profilers, request);
  return profiled(result, profilers[0], request);
}

ncclResult_t init(void** ctx, uint64_t commId, ncclNetCommConfig_v11_t* config, ncclDebugLogger_t log,
                  ncclProfilerCallback_t profiler) {
  ncclNetCommConfig_t own{config->trafficClass};
  ncclsProfiler = profiler;
  return ncclNetSocket.init(ctx, commId, &own, log, profiler);
}

// NCCL always gives a place for a device's handle, so others write to it unasked.
ncclResult_t connect(void* ctx, int dev, void* handle, void** comm, ncclNetDeviceHandle_v11_t** device) {
  *device = nullptr;
  return ncclNetSocket.connect(ctx, dev, handle, comm, device);
}
ncclResult_t accept(void* listenComm, void** comm, ncclNetDeviceHandle_v11_t** device) {
  *device = nullptr;
  return ncclNetSocket.accept(listenComm, comm, device);
}

ncclNet_v11_t table() noexcept {
  ncclNet_v11_t to{};
  const ncclNet_t& from = ncclNetSocket;
  to.name = "Other", to.init = init, to.devices = from.devices, to.getProperties = properties;
  to.listen = from.listen, to.connect = connect, to.accept = accept;
  to.regMr = from.regMr, to.regMrDmaBuf = from.regMrDmaBuf, to.deregMr = from.deregMr;
  to.isend = isend, to.irecv = irecv, to.iflush = from.iflush, to.test = from.test;
  to.closeSend = from.closeSend, to.closeRecv = from.closeRecv, to.closeListen = from.closeListen;
  to.finalize = from.finalize;
  return to;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ncclNet_v11_t ncclNetPlugin_v11;
const ncclNet_v11_t ncclNetPlugin_v11 = table();
