// The fabric as an ncclNet table.
#include <optional>

#include "fake_parts.h"

namespace r2cc::fake {

/// One thread at a time in a comm: what Ownership promises.
struct Use {
  Use(Fabric& fabric, Comm& comm, const char* call) : comm(comm), mine(!comm.inUse.exchange(true)) {
    if (!mine) fabric.violation(std::string("two threads at once in ") + comm.name() + ", one in " + call);
  }
  ~Use() {
    if (mine) comm.inUse = false;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  Comm& comm;
  const bool mine;
};

/// Calls for memory: where the transport lets them be made beside others, only not beside or after its close.
struct Beside {
  Beside(Fabric& fabric, Comm& comm, const char* call) : comm(comm) {
    if (!fabric.ops_.memoryMayWait) use.emplace(fabric, comm, call);
    comm.memoryCalls++;
  }
  ~Beside() { comm.memoryCalls--; }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  Comm& comm;
  std::optional<Use> use;
};

struct Table {
  static Comm& comm(void* p) { return *static_cast<Comm*>(p); }
  static Fabric& fabric(void* p) { return *comm(p).host.fabric; }

  static ncclResult_t init(void**, uint64_t, ncclNetCommConfig_t*, ncclDebugLogger_t, ncclProfilerCallback_t) {
    return ncclInvalidUsage;  // the engine is made without it
  }
  static ncclResult_t devices(int* count) { return *count = 0, ncclSuccess; }
  static ncclResult_t properties(int, ncclNetProperties_t*) { return ncclInvalidUsage; }
  static ncclResult_t finalize(void*) { return ncclSuccess; }

  static ncclResult_t listen(void* ctx, int dev, void* handle, void** listenComm) {
    auto& host = *static_cast<Host*>(ctx);
    return host.fabric->listen(host, dev % kDevicesOfHost, handle, listenComm);
  }
  static ncclResult_t connect(void* ctx, int dev, void* handle, void** comm, ncclNetDeviceHandle_t**) {
    auto& host = *static_cast<Host*>(ctx);
    return host.fabric->connect(host, dev % kDevicesOfHost, handle, comm);
  }
  static ncclResult_t accept(void* listenComm, void** comm, ncclNetDeviceHandle_t**) {
    auto& listener = *static_cast<Listener*>(listenComm);
    return listener.host->fabric->accept(listener, comm);
  }
  static ncclResult_t regMr(void* c, void* data, size_t size, int type, void** handle) {
    const Beside beside(fabric(c), comm(c), "regMr");
    return fabric(c).regMr(comm(c), data, size, type, handle);
  }
  static ncclResult_t regMrDmaBuf(void* c, void* data, size_t size, int type, uint64_t, int fd, void** handle) {
    const Beside beside(fabric(c), comm(c), "regMrDmaBuf");
    return fabric(c).regDmaBuf(comm(c), data, size, type, fd, handle);
  }
  static ncclResult_t deregMr(void* c, void* handle) {
    const Beside beside(fabric(c), comm(c), "deregMr");
    return fabric(c).deregMr(comm(c), *static_cast<Mr*>(handle));
  }
  static ncclResult_t isend(void* c, void* data, size_t size, int tag, void* mr, void*, void** request) {
    const Use use(fabric(c), comm(c), "isend");
    return fabric(c).post(comm(c), data, size, tag, static_cast<Mr*>(mr), reinterpret_cast<Request**>(request));
  }
  static ncclResult_t irecv(void* c, int n, void** data, size_t* sizes, int* tags, void** mrs, void**, void** request) {
    const Use use(fabric(c), comm(c), "irecv");
    if (n != 1) fabric(c).violation("irecv of more than one message");
    return fabric(c).post(comm(c), data[0], sizes[0], tags[0], static_cast<Mr*>(mrs[0]),
                          reinterpret_cast<Request**>(request));
  }
  static ncclResult_t iflush(void* c, int n, void** data, int* sizes, void** mrs, void** request) {
    const Use use(fabric(c), comm(c), "iflush");
    return fabric(c).flush(comm(c), n, data, sizes, mrs, reinterpret_cast<Request**>(request));
  }
  static ncclResult_t test(void* request, int* done, int* size) {
    auto& r = *static_cast<Request*>(request);
    const Use use(*r.comm->host.fabric, *r.comm, "test");
    return r.comm->host.fabric->test(r, done, size);
  }
  static ncclResult_t closeSend(void* c) {
    const Use use(fabric(c), comm(c), "closeSend");
    fabric(c).close(comm(c), true);
    return ncclSuccess;
  }
  static ncclResult_t closeRecv(void* c) {
    const Use use(fabric(c), comm(c), "closeRecv");
    fabric(c).close(comm(c), false);
    return ncclSuccess;
  }
  static ncclResult_t closeListen(void* listenComm) {
    cancelListen(listenComm);
    return ncclSuccess;
  }
  static void tune(void* c) {
    const Use use(fabric(c), comm(c), "tune");
    fabric(c).tune(comm(c));
  }
  static bool sample(void* c, LaneSample* out) {
    *out = fabric(c).sample(comm(c));
    return true;
  }
  static int64_t unconfirmed(void* c) {
    const Use use(fabric(c), comm(c), "unconfirmed");
    return fabric(c).unconfirmed(comm(c));
  }
  static int64_t unread(void* c) { return fabric(c).unread(comm(c)); }
  static bool ended(void* c) { return fabric(c).ended(comm(c)); }
  static void drain(void* c) {
    const Use use(fabric(c), comm(c), "drain");
    fabric(c).drain(comm(c));
  }
  static void fence(void* c) {
    const Use use(fabric(c), comm(c), "fence");
    fabric(c).fence(comm(c));
  }
  static void cancelConnect(void* handle) {
    const Handle h = loadHandle(handle);
    if (h.half != nullptr) h.half->fabric->cancelConnect(*h.half);
  }
  static void cancelListen(void* listenComm) {
    auto& listener = *static_cast<Listener*>(listenComm);
    listener.host->fabric->cancelListen(listener);
  }

  static Nic nicOf(int dev) { return {dev / kDevicesOfHost, dev % kDevicesOfHost}; }
  static int openEvents(int dev) { return Fabric::playing_.load()->openEvents(nicOf(dev)); }
  static bool readEvent(int dev, NicEvent* out) { return Fabric::playing_.load()->readEvent(nicOf(dev), out); }
  static bool reopen(int dev, NicEvent* out) { return Fabric::playing_.load()->reopen(nicOf(dev), out); }

  static ncclNet_t net(const Play& play) {
    ncclNet_t t{};
    t.name = "Fake";
    t.init = init, t.devices = devices, t.getProperties = properties, t.finalize = finalize;
    t.listen = listen, t.connect = connect, t.accept = accept, t.closeListen = closeListen;
    t.regMr = regMr, t.deregMr = deregMr;
    t.regMrDmaBuf = play.gpu || !play.needsAck ? regMrDmaBuf : nullptr;
    t.isend = isend, t.irecv = irecv, t.iflush = iflush, t.test = test;
    t.closeSend = closeSend, t.closeRecv = closeRecv;
    return t;
  }
  static InnerOps ops(const Play& play) {
    InnerOps o{};
    o.fence = fence, o.cancelConnect = cancelConnect, o.cancelListen = cancelListen;
    o.needsAck = play.needsAck;
    o.plainMemory = o.closesInOrder = play.plain;
    o.fenceMayWait = o.memoryMayWait = !play.needsAck;
    o.tune = tune;
    o.testsInAnyOrder = play.anyOrder;
    if (play.drains) o.drain = drain;
    if (play.samples) o.sample = sample;
    if (play.confirms) o.unconfirmed = unconfirmed, o.unread = unread;
    if (play.needsAck) o.ended = ended;
    if (play.devices) o.openEvents = openEvents, o.readEvent = readEvent, o.reopen = reopen;
    return o;
  }
};

Fabric::Fabric(int hosts, const Play& play, uint64_t seed)
    : play_(play), net_(Table::net(play)), ops_(Table::ops(play)), random_(seed) {
  for (int i = 0; i < hosts; i++) hosts_.push_back({this, i});
  if (play.devices) playing_ = this;
  thread_ = std::thread([this] { run(); });
}

}  // namespace r2cc::fake
