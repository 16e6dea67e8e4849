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

ncclResult_t init(void** ctx, uint64_t commId, ncclNetCommConfig_v11_t* config, ncclDebugLogger_t log,
                  ncclProfilerCallback_t profiler) {
  ncclNetCommConfig_t own{config->trafficClass};
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
  to.isend = from.isend, to.irecv = from.irecv, to.iflush = from.iflush, to.test = from.test;
  to.closeSend = from.closeSend, to.closeRecv = from.closeRecv, to.closeListen = from.closeListen;
  to.finalize = from.finalize;
  return to;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ncclNet_v11_t ncclNetPlugin_v11;
const ncclNet_v11_t ncclNetPlugin_v11 = table();
