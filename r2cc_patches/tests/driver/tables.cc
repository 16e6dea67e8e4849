#include "tables.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "bench/errors.h"
#include "standalone/net_tables.h"

namespace r2cc::driver {
namespace {

using plugin::NetV12;

// NCCL's own reads the handle unasked, too.
ncclResult_t countEvent(void** event, int type, void* handle, int64_t, void*) {
  if (type != ncclProfilerNetEventStart) return *event == nullptr ? ncclInternalError : ncclSuccess;
  ++*static_cast<Events*>(handle);
  *event = handle;
  return ncclSuccess;
}

// The table under test; NCCL has one of each version, too.
template <class Net>
const Net* theirs = nullptr;

template <class Net>
int users = 0;

// What NCCL takes of a table as it is.
template <class Net>
void takeCommon(ncclNet_t& ours, const Net& net) {
  ours.name = net.name;
  ours.devices = net.devices;
  ours.accept = net.accept;
  ours.regMr = net.regMr;
  ours.regMrDmaBuf = net.regMrDmaBuf;
  ours.deregMr = net.deregMr;
  ours.iflush = net.iflush;
  ours.test = net.test;
  ours.closeSend = net.closeSend;
  ours.closeRecv = net.closeRecv;
  ours.closeListen = net.closeListen;
}

template <class Properties>
void takeCommon(ncclNetProperties_t& ours, const Properties& p) {
  ours = {};
  ours.name = p.name;
  ours.pciPath = p.pciPath;
  ours.guid = p.guid;
  ours.ptrSupport = p.ptrSupport;
  ours.regIsGlobal = p.regIsGlobal;
  ours.speed = p.speed;
  ours.port = p.port;
  ours.latency = p.latency;
  ours.maxComms = p.maxComms;
  ours.maxRecvs = p.maxRecvs;
  ours.netDeviceType = p.netDeviceType;
  ours.netDeviceVersion = p.netDeviceVersion;
}

template <class Properties>
void takeFromV9(ncclNetProperties_t& ours, const Properties& p) {
  takeCommon(ours, p);
  ours.forceFlush = p.forceFlush;
  ours.vProps.ndevs = p.vProps.ndevs;
  std::copy_n(p.vProps.devs, p.vProps.ndevs, ours.vProps.devs);
  ours.maxP2pBytes = p.maxP2pBytes;
  ours.maxCollBytes = p.maxCollBytes;
}

template <class Net, class Properties>
ncclResult_t propertiesFromV9(int dev, ncclNetProperties_t* ours) {
  Properties p{};
  const ncclResult_t result = theirs<Net>->getProperties(dev, &p);
  if (result == ncclSuccess) takeFromV9(*ours, p);
  return result;
}

// Before v11 a table knows no communicators: its init is called by the first of them, its finalize is not there.
template <class Net, class Init>
ncclResult_t initFirst(Init init) {
  const ncclResult_t result = users<Net> == 0 ? init() : ncclSuccess;
  if (result == ncclSuccess) users<Net> ++;
  return result;
}

template <class Net>
ncclResult_t listenWithoutContext(void*, int dev, void* handle, void** comm) {
  return theirs<Net>->listen(dev, handle, comm);
}

template <class Net>
ncclResult_t finalizeNothing(void*) {
  users<Net> --;
  return ncclSuccess;
}

template <class Net>
ncclNet_t withoutContext(const Net& net) {
  ncclNet_t ours{};
  takeCommon(ours, net);
  ours.listen = listenWithoutContext<Net>;
  ours.finalize = finalizeNothing<Net>;
  return ours;
}

// ---- v8 ---------------------------------------------------------------------------------------------------------

ncclNet_t asOurs(const ncclNet_v8_t& net) {
  ncclNet_t ours = withoutContext(net);
  ours.init = [](void**, uint64_t, ncclNetCommConfig_t*, ncclDebugLogger_t log, ncclProfilerCallback_t) {
    return initFirst<ncclNet_v8_t>([log] { return theirs<ncclNet_v8_t>->init(log); });
  };
  ours.getProperties = [](int dev, ncclNetProperties_t* p) {
    ncclNetProperties_v8_t old{};
    const ncclResult_t result = theirs<ncclNet_v8_t>->getProperties(dev, &old);
    if (result != ncclSuccess) return result;
    takeCommon(*p, old);
    p->vProps = {1, {dev}};
    p->maxP2pBytes = MAX_NET_SIZE;
    return result;
  };
  ours.connect = [](void*, int dev, void* handle, void** comm, ncclNetDeviceHandle_t** device) {
    return theirs<ncclNet_v8_t>->connect(dev, handle, comm, device);
  };
  ours.isend = [](void* comm, void* data, size_t size, int tag, void* mr, void*, void** request) {
    return theirs<ncclNet_v8_t>->isend(comm, data, static_cast<int>(size), tag, mr, request);
  };
  ours.irecv = [](void* comm, int n, void** data, size_t* sizes, int* tags, void** mrs, void**, void** request) {
    int asInt[NCCL_NET_MAX_REQUESTS];
    std::transform(sizes, sizes + n, asInt, [](size_t size) { return static_cast<int>(size); });
    return theirs<ncclNet_v8_t>->irecv(comm, n, data, asInt, tags, mrs, request);
  };
  return ours;
}

// ---- v9 ---------------------------------------------------------------------------------------------------------

// A hint that the receiver needs not know when data is there, from 2.24 on.
void hint(void** request) {
  *request = reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION);  // NOLINT(performance-no-int-to-ptr)
}

ncclNet_t asOurs(const ncclNet_v9_t& net) {
  ncclNet_t ours = withoutContext(net);
  ours.init = [](void**, uint64_t, ncclNetCommConfig_t*, ncclDebugLogger_t log, ncclProfilerCallback_t) {
    return initFirst<ncclNet_v9_t>([log] { return theirs<ncclNet_v9_t>->init(log); });
  };
  ours.getProperties = propertiesFromV9<ncclNet_v9_t, ncclNetProperties_v9_t>;
  ours.connect = [](void*, int dev, void* handle, void** comm, ncclNetDeviceHandle_t** device) {
    return theirs<ncclNet_v9_t>->connect(dev, handle, comm, device);
  };
  ours.isend = [](void* comm, void* data, size_t size, int tag, void* mr, void*, void** request) {
    return theirs<ncclNet_v9_t>->isend(comm, data, size, tag, mr, request);
  };
  ours.irecv = [](void* comm, int n, void** data, size_t* sizes, int* tags, void** mrs, void**, void** request) {
    hint(request);
    return theirs<ncclNet_v9_t>->irecv(comm, n, data, sizes, tags, mrs, request);
  };
  return ours;
}

// ---- v10 --------------------------------------------------------------------------------------------------------

// A communicator's config, which comes with each connect; NCCL's own trials have none.
ncclNetCommConfig_v10_t* configOf(void* ctx) { return static_cast<ncclNetCommConfig_v10_t*>(ctx); }

ncclNet_t asOurs(const ncclNet_v10_t& net) {
  ncclNet_t ours = withoutContext(net);
  ours.init = [](void** ctx, uint64_t commId, ncclNetCommConfig_t*, ncclDebugLogger_t log, ncclProfilerCallback_t) {
    *ctx = commId % 2 == 0 ? nullptr : new ncclNetCommConfig_v10_t{static_cast<int>(commId % 128)};
    return initFirst<ncclNet_v10_t>([log] { return theirs<ncclNet_v10_t>->init(log, countEvent); });
  };
  ours.getProperties = propertiesFromV9<ncclNet_v10_t, ncclNetProperties_v10_t>;
  ours.connect = [](void* ctx, int dev, void* handle, void** comm, ncclNetDeviceHandle_t** device) {
    return theirs<ncclNet_v10_t>->connect(dev, configOf(ctx), handle, comm, device);
  };
  ours.isend = net.isend;
  ours.irecv = [](void* comm, int n, void** data, size_t* sizes, int* tags, void** mrs, void** profilers,
                  void** request) {
    hint(request);
    return theirs<ncclNet_v10_t>->irecv(comm, n, data, sizes, tags, mrs, profilers, request);
  };
  ours.finalize = [](void* ctx) {
    delete configOf(ctx);
    return finalizeNothing<ncclNet_v10_t>(nullptr);
  };
  return ours;
}

// ---- v11 and v12 ------------------------------------------------------------------------------------------------

// Hints are laid out alike in both.
ncclResult_t setAttributes(void* ctx, ncclNetAttr_t* attributes) {
  return theirs<ncclNet_v11_t>->setNetAttr(ctx, reinterpret_cast<ncclNetAttr_v11_t*>(attributes));
}

ncclNet_t asOurs(const ncclNet_v11_t& net) {
  ncclNet_t ours{};
  takeCommon(ours, net);
  ours.init = [](void** ctx, uint64_t commId, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                 ncclProfilerCallback_t) {
    ncclNetCommConfig_v11_t own{config->trafficClass};
    return theirs<ncclNet_v11_t>->init(ctx, commId, &own, log, countEvent);
  };
  ours.getProperties = [](int dev, ncclNetProperties_t* p) {
    ncclNetProperties_v11_t theirOwn{};
    const ncclResult_t result = theirs<ncclNet_v11_t>->getProperties(dev, &theirOwn);
    if (result != ncclSuccess) return result;
    takeFromV9(*p, theirOwn);
    p->maxMultiRequestSize = theirOwn.maxMultiRequestSize;
    return result;
  };
  ours.listen = net.listen;
  ours.connect = net.connect;
  ours.isend = net.isend;
  ours.irecv = net.irecv;
  ours.finalize = net.finalize;
  if (net.setNetAttr != nullptr) ours.setNetAttr = setAttributes;
  return ours;
}

ncclNet_t asOurs(const NetV12& net) {
  ncclNet_t ours{};
  ours.name = net.name;
  ours.init = [](void** ctx, uint64_t commId, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                 ncclProfilerCallback_t) {
    plugin::Config own{config->trafficClass};
    return theirs<NetV12>->init(ctx, commId, &own, log, countEvent);
  };
  ours.devices = net.devices;
  ours.getProperties = [](int dev, ncclNetProperties_t* p) {
    plugin::PropertiesV12 newer{};
    const ncclResult_t result = theirs<NetV12>->getProperties(dev, &newer);
    if (result != ncclSuccess) return result;
    *p = {};
    p->name = newer.identity.name;
    p->ptrSupport = newer.identity.ptrSupport;
    p->speed = newer.port.speed;
    p->maxRecvs = newer.port.maxRecvs;
    p->vProps.ndevs = newer.parts.ndevs;
    std::copy_n(newer.parts.devs, newer.parts.ndevs, p->vProps.devs);
    p->maxP2pBytes = newer.mostBytes.p2p;
    p->maxCollBytes = newer.mostBytes.collective;
    p->maxMultiRequestSize = newer.maxMultiRequestSize;
    // No NIC here is of a known rail or plane.
    return newer.rail == -1 && newer.plane == -1 ? ncclSuccess : ncclInternalError;
  };
  ours.listen = net.listen;
  ours.connect = [](void* ctx, int dev, void* handle, void** comm, ncclNetDeviceHandle_t**) {
    return theirs<NetV12>->connect(ctx, dev, handle, comm, nullptr);
  };
  ours.accept = [](void* listener, void** comm, ncclNetDeviceHandle_t**) {
    return theirs<NetV12>->accept(listener, comm, nullptr);
  };
  ours.regMr = net.memory.regMr;
  ours.regMrDmaBuf = net.memory.regMrDmaBuf;
  ours.deregMr = net.memory.deregMr;
  ours.isend = net.isend;
  ours.irecv = net.irecv;
  ours.iflush = net.ends.iflush;
  ours.test = net.ends.test;
  ours.closeSend = net.ends.closeSend;
  ours.closeRecv = net.ends.closeRecv;
  ours.closeListen = net.ends.closeListen;
  ours.finalize = net.finalize;
  return ours;
}

// The NCCL that is played, by table; the plugin asks for it.
constexpr std::array<int, 5> kVersions{22105, 22501, 22707, 22907, 23007};
int playedVersion = 0;

template <class Net>
const ncclNet_t& through(const void* symbol) {
  static ncclNet_t ours;
  theirs<Net> = static_cast<const Net*>(symbol);
  ours = asOurs(*theirs<Net>);
  return ours;
}

}  // namespace

const ncclNet_t& pluginTable(const std::string& library, int version) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // as NCCL does
  if (handle == nullptr) throw bench::TransportError("cannot load " + library);
  const std::string name = "ncclNetPlugin_v" + std::to_string(version);
  const void* symbol = dlsym(handle, name.c_str());
  if (symbol == nullptr) throw bench::TransportError(library + " has no " + name);
  playedVersion = kVersions.at(static_cast<size_t>(version - kOldestTable));
  switch (version) {
    case 8:
      return through<ncclNet_v8_t>(symbol);
    case 9:
      return through<ncclNet_v9_t>(symbol);
    case 10:
      return through<ncclNet_v10_t>(symbol);
    case 11:
      return through<ncclNet_v11_t>(symbol);
    default:
      return through<NetV12>(symbol);
  }
}

}  // namespace r2cc::driver

// Looked for in the library, here the program, that the logger lies in.
extern "C" __attribute__((visibility("default"))) ncclResult_t ncclGetVersion(int* version) {
  *version = r2cc::driver::playedVersion;
  return ncclSuccess;
}
