// The resilient net as NCCL sees it: an ncclNet_t around an inner one.
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string>

#include "debug.h"
#include "inner/plain.h"
#include "net/net_process.h"
#include "net/r2cc_net.h"
#include "wire/refusal.h"

extern ncclNet_t ncclNetIb;
extern ncclNet_t ncclNetSocket;
extern ncclNet_t r2ccOtherNet;    // net_process.cc
extern const char r2ccBuildId[];  // stamp/build_id.cc

namespace r2cc {
namespace {

NetProcess& process() { return NetProcess::instance(); }
const ncclNet_t& inner() { return process().inner(); }
Engine& engine() { return *process().engine(); }

/// One line in NCCL's log, in every mode, so that a log says what ran.
void introduce(int mode) {
  static std::once_flag done;
  std::call_once(done, [mode] {
    ncclDebugLog(NCCL_LOG_INFO, NCCL_INIT, "r2cc", 0, "R2CC: build %s, R2CC_MODE=%d%s", r2ccBuildId, mode,
                 mode == 0 ? ": NCCL's own nets" : "");
    if (mode == 0 && Config::fromEnvironment().mayNotBePlain()) {
      ncclDebugLog(NCCL_LOG_WARN, NCCL_INIT, "r2cc", 0,
                   "R2CC: R2CC_TLS does nothing with R2CC_MODE=0: data is not encrypted");
    }
  });
}

template <ncclNet_t* Inner>
ncclResult_t netInit(void** ctx, uint64_t commId, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                     ncclProfilerCallback_t profiler) {
  return process().init(Inner, ctx, commId, config, log, profiler);
}

ncclResult_t netFinalize(void* ctx) { return process().finalize(ctx); }

ncclResult_t netDevices(int* count) { return inner().devices(count); }

ncclResult_t netProperties(int dev, ncclNetProperties_t* props) {
  const ncclResult_t result = inner().getProperties(dev, props);
  // One message, one receive: the comm is then first in, first out.
  if (result == ncclSuccess && process().protects(dev)) props->maxRecvs = 1;
  return result;
}

// ---- connecting -------------------------------------------------------------------------------------------------

ncclResult_t plainListen(void* ctx, int dev, void* handle, void** listenComm) {
  memset(handle, 0, NCCL_NET_HANDLE_MAXSIZE);
  const ncclResult_t result = inner().listen(ctx, dev, handle, listenComm);
  if (result != ncclSuccess) return result;
  markPlainHandle(handle);
  return markPlain(listenComm), ncclSuccess;
}

ncclResult_t netListen(void* ctx, int dev, void* handle, void** listenComm) {
  if (!process().protects(dev) && process().refusesPlain(dev)) return ncclInvalidUsage;
  if (!process().protects(dev)) return plainListen(ctx, dev, handle, listenComm);
  return engine().listen(ctx, dev, handle, listenComm);
}

/// What connect or accept gave, if anything yet: ours, or the inner net's own.
ncclResult_t counted(ncclResult_t result, void** comm, bool ours) {
  if (!ours) markPlain(comm);
  if (result == ncclSuccess && *comm != nullptr) process().countConnection(ours);
  return result;
}

/// False where whoever listens has no R2CC.
bool tellListener(const void* handle, const std::string& what) {
  ConnectHandle to;
  if (openHandle(handle, to) == 0) return false;
  const std::string who = "process " + std::to_string(getpid()) + " on " + hostName();
  refuseOnce(to, who + " " + what + ", or set R2CC_MODE=0 on all ranks");
  return true;
}

/// This process runs without R2CC, and the listening end with it: it is told, as it would wait for us without end.
void refuse(const void* handle) {
  process().warn(inChild()
                     ? "R2CC: this process was forked from one that uses the net, so it runs without R2CC, and the "
                       "peer with it: start it by exec, or set R2CC_MODE=0 on all ranks"
                     : "R2CC: the peer runs R2CC and this process could not start it (see above): set R2CC_MODE=0 "
                       "on all ranks");
  (void)tellListener(handle, inChild() ? "is a forked child, which runs without R2CC: start it by exec"
                                       : "could not start R2CC: its log says why");
}

/// The listening end says what the connection is: it may be another host's NIC that cannot be protected.
ncclResult_t netConnect(void* ctx, int dev, void* handle, void** sendComm, ncclNetDeviceHandle_t** device) {
  if (isPlainHandle(handle)) {
    if (process().refusesPlain(dev)) return ncclInvalidUsage;
    const ncclResult_t result = inner().connect(ctx, dev, handle, sendComm, device);
    return counted(result, sendComm, false);
  }
  *sendComm = nullptr;
  if (process().engine() != nullptr && !inChild())
    return counted(engine().connect(ctx, dev, handle, sendComm), sendComm, true);
  return refuse(handle), ncclSystemError;
}

ncclResult_t netAccept(void* listenComm, void** recvComm, ncclNetDeviceHandle_t** device) {
  if (isPlain(listenComm)) {
    const ncclResult_t result = inner().accept(plain(listenComm), recvComm, device);
    return counted(result, recvComm, false);
  }
  *recvComm = nullptr;
  return inChild() ? ncclSystemError : counted(engine().accept(listenComm, recvComm), recvComm, true);
}

// ---- memory -----------------------------------------------------------------------------------------------------

ncclResult_t netRegMr(void* comm, void* data, size_t size, int type, void** handle) {
  if (isPlain(comm)) return inner().regMr(plain(comm), data, size, type, handle);
  if (inChild()) return ncclSystemError;
  process().expectGpuMemory(type, size);
  return engine().regMr(comm, data, size, type, 0, -1, handle);
}
ncclResult_t netRegMrDmaBuf(void* comm, void* data, size_t size, int type, uint64_t offset, int fd, void** handle) {
  if (isPlain(comm)) return inner().regMrDmaBuf(plain(comm), data, size, type, offset, fd, handle);
  if (inChild()) return ncclSystemError;
  process().expectGpuMemory(type, size);
  return engine().regMr(comm, data, size, type, offset, fd, handle);
}
ncclResult_t netDeregMr(void* comm, void* handle) {
  if (isPlain(comm)) return inner().deregMr(plain(comm), handle);
  return inChild() ? ncclSuccess : engine().deregMr(comm, handle);
}

// ---- the data path ----------------------------------------------------------------------------------------------

ncclResult_t netIsend(void* comm, void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
  if (isPlain(comm)) {
    const ncclResult_t result = inner().isend(plain(comm), data, size, tag, mr, profiler, request);
    return markPlain(request), result;
  }
  if (inChild()) return ncclSystemError;
  return static_cast<SendConnection*>(static_cast<Connection*>(comm))->isend(data, size, tag, mr, profiler, request);
}
ncclResult_t netIrecv(void* comm, int n, void** data, size_t* sizes, int* tags, void** mrs, void** profilers,
                      void** request) {
  if (isPlain(comm)) {
    const ncclResult_t result = inner().irecv(plain(comm), n, data, sizes, tags, mrs, profilers, request);
    return markPlain(request), result;
  }
  *request = nullptr;
  if (n != 1) return ncclInvalidUsage;
  if (inChild()) return ncclSystemError;
  return static_cast<RecvConnection*>(static_cast<Connection*>(comm))
      ->irecv(data[0], sizes[0], tags[0], mrs[0], profilers == nullptr ? nullptr : profilers[0], request);
}
ncclResult_t netIflush(void* comm, int n, void** data, int* sizes, void** mrs, void** request) {
  if (isPlain(comm)) {
    const ncclResult_t result = inner().iflush(plain(comm), n, data, sizes, mrs, request);
    return markPlain(request), result;
  }
  if (inChild()) return ncclSystemError;
  return static_cast<RecvConnection*>(static_cast<Connection*>(comm))->iflush(n, data, sizes, mrs, request);
}
ncclResult_t netTest(void* request, int* done, int* size) {
  if (isPlain(request)) return inner().test(plain(request), done, size);
  if (inChild()) return ncclSystemError;
  auto* r = static_cast<Request*>(request);
  return r->connection->test(*r, done, size);
}

// ---- closing ----------------------------------------------------------------------------------------------------

ncclResult_t netCloseSend(void* comm) {
  if (isPlain(comm)) return inner().closeSend(plain(comm));
  if (comm != nullptr && !inChild()) engine().closeSend(comm);
  return ncclSuccess;
}
ncclResult_t netCloseRecv(void* comm) {
  if (isPlain(comm)) return inner().closeRecv(plain(comm));
  if (comm != nullptr && !inChild()) engine().closeRecv(comm);
  return ncclSuccess;
}
ncclResult_t netCloseListen(void* listenComm) {
  if (isPlain(listenComm)) return inner().closeListen(plain(listenComm));
  if (listenComm != nullptr && !inChild()) engine().closeListen(listenComm);
  return ncclSuccess;
}

template <ncclNet_t* Inner>
ncclNet_t* table() {
  static ncclNet_t t;
  t = *Inner;  // what we do not wrap (setNetAttr) stays the inner net's
  t.init = netInit<Inner>;
  t.devices = netDevices;
  t.getProperties = netProperties;
  t.listen = netListen;
  t.connect = netConnect;
  t.accept = netAccept;
  t.regMr = netRegMr;
  t.regMrDmaBuf = Inner->regMrDmaBuf == nullptr ? nullptr : netRegMrDmaBuf;
  t.deregMr = netDeregMr;
  t.isend = netIsend;
  t.irecv = netIrecv;
  t.iflush = netIflush;
  t.test = netTest;
  t.closeSend = netCloseSend;
  t.closeRecv = netCloseRecv;
  t.closeListen = netCloseListen;
  t.getDeviceMr = nullptr;
  t.irecvConsumed = nullptr;
  t.makeVDevice = nullptr;  // a device is one NIC, so that one can fail alone; NCCL then merges none
  t.finalize = netFinalize;
  return &t;
}

}  // namespace
}  // namespace r2cc

ncclNet_t* r2ccWrapNet(ncclNet_t* inner) {
  using namespace r2cc;
  const int mode = Config::fromEnvironment().mode;
  introduce(mode);
  if (innerOps(inner) == nullptr || mode == 0) return inner;
  if (inner == &r2ccOtherNet) return table<&r2ccOtherNet>();
  return inner == &ncclNetIb ? table<&ncclNetIb>() : table<&ncclNetSocket>();
}

bool r2ccWraps(const ncclNet_t* net) {
  using namespace r2cc;
  return net->init == netInit<&ncclNetIb> || net->init == netInit<&ncclNetSocket> ||
         net->init == netInit<&r2ccOtherNet>;
}

namespace {
/// Null where R2CC does not answer for what is sent there.
r2cc::SendConnection* sendsOver(const ncclNet_t* net, void* comm) {
  if (comm == nullptr || !r2ccWraps(net) || r2cc::isPlain(comm) || r2cc::inChild()) return nullptr;
  return static_cast<r2cc::SendConnection*>(static_cast<r2cc::Connection*>(comm));
}
}  // namespace

uint64_t r2ccSendHead(const ncclNet_t* net, void* sendComm, uint64_t head) {
  r2cc::SendConnection* const connection = sendsOver(net, sendComm);
  return connection == nullptr ? head : connection->headAfter(head);
}

ncclResult_t r2ccMoreCredit(const ncclNet_t* net, void* sendComm, uint64_t* head, bool* more) {
  r2cc::SendConnection* const connection = sendsOver(net, sendComm);
  *more = false;
  return connection == nullptr ? ncclSuccess : connection->moreCredit(*head, *more);
}

void r2ccNetAborts(bool aborts) { r2cc::NetProcess::instance().abort(aborts); }

bool r2ccRefuse(const void* handle) {
  return r2cc::tellListener(handle, "runs without R2CC: use the same library and R2CC_MODE on all ranks");
}

extern "C" const void* r2ccNetGet(const char* inner) {
  if (strcmp(inner, "Socket") == 0) return r2ccWrapNet(&ncclNetSocket);
  if (strcmp(inner, "IB") == 0) return r2ccWrapNet(&ncclNetIb);
  return nullptr;
}
