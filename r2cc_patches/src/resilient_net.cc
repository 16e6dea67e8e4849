// The resilient net as NCCL sees it: an ncclNet_v11_t around an inner one.
#include <net/if.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "assumed_down.h"
#include "debug.h"
#include "engine.h"
#include "last_resort.h"
#include "net_ib_ops.h"
#include "r2cc_net.h"
#include "topology.h"

extern ncclNet_t ncclNetIb;
extern ncclNet_t ncclNetSocket;
extern const r2cc::InnerOps r2ccNetSocketOps;
extern const char r2ccBuildId[];  // stamp/build_id.cc

namespace r2cc {

const InnerOps* innerOps(const ncclNet_t* net) {
  if (net == &ncclNetIb) return &r2ccNetIbOps;
  return net == &ncclNetSocket ? &r2ccNetSocketOps : nullptr;
}

InnerNet innerNet(const ncclNet_t* net) { return {net == &ncclNetIb ? &r2ccNetIb : net, innerOps(net)}; }

namespace {

/// The process's engine: made by the first communicator, gone with the last. NCCL's table functions carry no context
/// of ours (devices, getProperties, test), so the process has one; health is one view per process anyway. NCCL is given
/// a table for each inner net before it knows which has devices: the one it initialises is `inner`.
struct Process {
  std::mutex mutex;
  InnerNet inner{};
  Distances distances;
  std::unique_ptr<LastResort> lastResort;
  std::unique_ptr<Engine> engine;  // after what it uses
  int users = 0;
  ncclDebugLogger_t log = nullptr;
};

Process& process() {
  static Process p;
  return p;
}

std::vector<LocalNic> localNics(const InnerNet& inner) {
  std::vector<LocalNic> nics;
  int count = 0;
  if (inner.net->devices(&count) != ncclSuccess) return nics;
  for (int dev = 0; dev < count; dev++) {
    ncclNetProperties_t props{};
    if (inner.net->getProperties(dev, &props) != ncclSuccess) break;
    char interface[IFNAMSIZ] = "";
    const bool other = inner.ops->interfaceOf != nullptr && inner.ops->interfaceOf(dev, interface, sizeof(interface));
    nics.push_back(findLocalNic(other ? interface : props.name, static_cast<uint8_t>(dev), 0));
    nics.back().inner = inner;
    nics.back().dev = dev;
    nics.back().rateGbit = props.speed / 1000.0;
  }
  return nics;
}

/// Behind the devices: the last resort, and the interface for the side channel alone, unless one is the other.
void addSpecialNics(std::vector<LocalNic>& nics, const Config& config, const LastResort* lastResort) {
  if (lastResort != nullptr) nics.push_back(lastResort->nic());
  const bool resort = lastResort != nullptr && lastResort->nic().name == config.sideInterface;
  if (!config.sideInterface.empty() && !resort && nics.size() < kMaxNics) {
    nics.push_back(findLocalNic(config.sideInterface, static_cast<uint8_t>(nics.size()), kSideOnly));
  }
}

std::vector<NicName> nicNames(const InnerNet& inner) {
  std::vector<NicName> names;
  int count = 0;
  if (inner.net->devices(&count) != ncclSuccess) return names;
  for (int dev = 0; dev < count; dev++) {
    ncclNetProperties_t props{};
    if (inner.net->getProperties(dev, &props) != ncclSuccess) break;
    names.push_back({props.name, props.pciPath == nullptr ? "" : props.pciPath});
  }
  return names;
}

/// Throws std::invalid_argument where R2CC_ASSUME_DOWN is not what it should be.
void assumeDown(std::vector<LocalNic>& nics, const std::vector<NicName>& devices, const Config& config) {
  const std::string host = hostName();
  for (const std::string& name :
       assumedDown(config.assumeDown, {host, host.substr(0, host.find('.')), config.hostId})) {
    size_t nic = 0;
    while (nic < nics.size() && nics[nic].name != name && devices[nic].name != name) nic++;
    if (nic == nics.size())
      throw std::invalid_argument(std::string("R2CC_ASSUME_DOWN: ").append(host).append(" has no NIC ").append(name));
    nics[nic].assumedDown = true;
  }
}

/// What the topology file says goes before what the driver says: the lab's interfaces do not know their rates.
void takeRates(std::vector<LocalNic>& nics, const Distances& distances) {
  for (size_t i = 0; i < nics.size(); i++) {
    if (const double rate = distances.place(i).rateGbit; rate > 0) nics[i].rateGbit = rate;
  }
}

void warn(const std::string& text) {
  const ncclDebugLogger_t log = process().log;
  if (log != nullptr) log(NCCL_LOG_WARN, NCCL_NET, "r2cc", 0, "%s", text.c_str());
}

void info(const std::string& text) {
  const ncclDebugLogger_t log = process().log;
  if (log != nullptr) log(NCCL_LOG_INFO, NCCL_NET, "r2cc", 0, "%s", text.c_str());
}

/// One line in NCCL's log, in every mode, so that a log says what ran.
void introduce(int mode) {
  static std::once_flag done;
  std::call_once(done, [mode] {
    ncclDebugLog(NCCL_LOG_INFO, NCCL_INIT, "r2cc", 0, "R2CC: build %s, R2CC_MODE=%d%s", r2ccBuildId, mode,
                 mode == 0 ? ": NCCL's own nets" : "");
  });
}

template <ncclNet_t* Inner>
ncclResult_t netInit(void** ctx, uint64_t commId, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                     ncclProfilerCallback_t profiler) {
  Process& p = process();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.log = log;
  if (p.users == 0) p.inner = innerNet(Inner);
  if (p.inner.ops != innerOps(Inner)) {
    warn(std::string("R2CC: this process already uses the net ") + p.inner.net->name + ", so not " + Inner->name);
    return ncclSystemError;
  }
  const ncclResult_t result = p.inner.net->init(ctx, commId, config, log, profiler);
  if (result != ncclSuccess) return result;
  if (p.users == 0) {
    const Config settings = Config::fromEnvironment();
    p.distances = Distances(nicNames(p.inner), settings.topologyFile, hostName(), warn);
    log(NCCL_LOG_INFO, NCCL_NET | NCCL_INIT, "r2cc", 0, "R2CC: NIC distances from %s: %s",
        p.distances.fromFile() ? settings.topologyFile.c_str() : "sysfs", p.distances.describe().c_str());
    std::vector<LocalNic> nics = localNics(p.inner);
    takeRates(nics, p.distances);
    const auto distance = [&p](size_t a, size_t b) { return p.distances.distance(a, b); };
    try {
      assumeDown(nics, nicNames(p.inner), settings);
      p.lastResort = LastResort::make(settings, {commId, config, log, profiler}, nics, warn);
      addSpecialNics(nics, settings, p.lastResort.get());
      p.engine =
          std::make_unique<Engine>(settings, p.inner, std::move(nics), warn, nullptr, info, distance, &healthBoard());
      if (p.lastResort != nullptr) p.lastResort->warnThrough(p.engine->warner());
    } catch (const std::invalid_argument& problem) {
      warn("R2CC: " + std::string(problem.what()));
      (void)p.inner.net->finalize(*ctx);
      return ncclInvalidUsage;
    } catch (const std::exception& problem) {
      warn(std::string("R2CC: cannot start: ") + problem.what());
      (void)p.inner.net->finalize(*ctx);
      return ncclSystemError;
    }
    log(NCCL_LOG_INFO, NCCL_NET | NCCL_INIT, "r2cc", 0, "R2CC: resilient net around %s, R2CC_MODE=%d",
        p.inner.net->name, settings.mode);
    if (settings.mode > kHighestMode) {
      warn("R2CC: R2CC_MODE=" + std::to_string(settings.mode) + " is not in this version; running mode " +
           std::to_string(kHighestMode));
    }
  }
  p.users++;
  return ncclSuccess;
}

ncclResult_t netFinalize(void* ctx) {
  Process& p = process();
  const std::lock_guard<std::mutex> lock(p.mutex);
  if (p.users > 0 && --p.users == 0) {
    p.engine.reset();
    p.lastResort.reset();
  }
  return p.inner.net->finalize(ctx);
}

ncclResult_t netDevices(int* count) { return process().inner.net->devices(count); }

ncclResult_t netProperties(int dev, ncclNetProperties_t* props) {
  const ncclResult_t result = process().inner.net->getProperties(dev, props);
  if (result == ncclSuccess) props->maxRecvs = 1;  // one message, one receive: the comm is then first in, first out
  return result;
}

ncclResult_t netListen(void* ctx, int dev, void* handle, void** listenComm) {
  return process().engine->listen(ctx, dev, handle, listenComm);
}
ncclResult_t netConnect(void* ctx, int dev, void* handle, void** sendComm, ncclNetDeviceHandle_v11_t**) {
  return process().engine->connect(ctx, dev, handle, sendComm);
}
ncclResult_t netAccept(void* listenComm, void** recvComm, ncclNetDeviceHandle_v11_t**) {
  return process().engine->accept(listenComm, recvComm);
}
void expectGpuMemory(int type, size_t size) {
  LastResort* const lastResort = process().lastResort.get();
  if (lastResort != nullptr && type == NCCL_PTR_CUDA) lastResort->expect(size);
}
ncclResult_t netRegMr(void* comm, void* data, size_t size, int type, void** handle) {
  expectGpuMemory(type, size);
  return process().engine->regMr(comm, data, size, type, 0, -1, handle);
}
ncclResult_t netRegMrDmaBuf(void* comm, void* data, size_t size, int type, uint64_t offset, int fd, void** handle) {
  expectGpuMemory(type, size);
  return process().engine->regMr(comm, data, size, type, offset, fd, handle);
}
ncclResult_t netDeregMr(void* comm, void* handle) { return process().engine->deregMr(comm, handle); }

ncclResult_t netIsend(void* comm, void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
  return static_cast<SendConnection*>(static_cast<Connection*>(comm))->isend(data, size, tag, mr, profiler, request);
}
ncclResult_t netIrecv(void* comm, int n, void** data, size_t* sizes, int* tags, void** mrs, void** profilers,
                      void** request) {
  *request = nullptr;
  if (n != 1) return ncclInvalidUsage;
  return static_cast<RecvConnection*>(static_cast<Connection*>(comm))
      ->irecv(data[0], sizes[0], tags[0], mrs[0], profilers == nullptr ? nullptr : profilers[0], request);
}
ncclResult_t netIflush(void* comm, int n, void** data, int* sizes, void** mrs, void** request) {
  return static_cast<RecvConnection*>(static_cast<Connection*>(comm))->iflush(n, data, sizes, mrs, request);
}
ncclResult_t netTest(void* request, int* done, int* size) {
  auto* r = static_cast<Request*>(request);
  return r->connection->test(*r, done, size);
}
ncclResult_t netCloseSend(void* comm) {
  if (comm != nullptr) process().engine->closeSend(comm);
  return ncclSuccess;
}
ncclResult_t netCloseRecv(void* comm) {
  if (comm != nullptr) process().engine->closeRecv(comm);
  return ncclSuccess;
}
ncclResult_t netCloseListen(void* listenComm) {
  if (listenComm != nullptr) process().engine->closeListen(listenComm);
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
  const std::lock_guard<std::mutex> lock(process().mutex);
  return inner == &ncclNetIb ? table<&ncclNetIb>() : table<&ncclNetSocket>();
}

extern "C" const void* r2ccNetGet(const char* inner) {
  if (strcmp(inner, "Socket") == 0) return r2ccWrapNet(&ncclNetSocket);
  if (strcmp(inner, "IB") == 0) return r2ccWrapNet(&ncclNetIb);
  return nullptr;
}
