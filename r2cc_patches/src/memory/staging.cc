#include "memory/staging.h"

#include "memory/staged_comm.h"

namespace r2cc {

/// The functions NCCL's table and InnerOps are made of.
struct StagedTable {
  struct Listener {
    StagedNet* net;
    void* inner;
  };
  static StagedComm* comm(void* p) { return static_cast<StagedComm*>(p); }

  static ncclResult_t listen(void* ctx, int dev, void* handle, void** listenComm) {
    const auto& context = *static_cast<StagedNet::Context*>(ctx);
    *listenComm = nullptr;
    void* inner = nullptr;
    const ncclResult_t result = context.net->inner_.net->listen(context.inner, dev, handle, &inner);
    if (result == ncclSuccess) *listenComm = new Listener{context.net, inner};
    return result;
  }
  static ncclResult_t connect(void* ctx, int dev, void* handle, void** out, ncclNetDeviceHandle_t**) {
    const auto& context = *static_cast<StagedNet::Context*>(ctx);
    *out = nullptr;
    void* inner = nullptr;
    const ncclResult_t result = context.net->inner_.net->connect(context.inner, dev, handle, &inner, nullptr);
    if (inner != nullptr) *out = new StagedComm(*context.net, inner, /*sends=*/true);
    return result;
  }
  static ncclResult_t accept(void* listenComm, void** out, ncclNetDeviceHandle_t**) {
    const auto& listener = *static_cast<Listener*>(listenComm);
    *out = nullptr;
    void* inner = nullptr;
    const ncclResult_t result = listener.net->inner_.net->accept(listener.inner, &inner, nullptr);
    if (inner != nullptr) *out = new StagedComm(*listener.net, inner, /*sends=*/false);
    return result;
  }
  static ncclResult_t guardedAccept(void* listenComm, void** out, uint64_t* refused) {
    const auto& listener = *static_cast<Listener*>(listenComm);
    *out = nullptr;
    void* inner = nullptr;
    const ncclResult_t result = listener.net->inner_.ops->accept(listener.inner, &inner, refused);
    if (inner != nullptr) *out = new StagedComm(*listener.net, inner, /*sends=*/false);
    return result;
  }
  static void lockListen(void* listenComm, void* handle, uint64_t secret) {
    const auto& listener = *static_cast<Listener*>(listenComm);
    listener.net->inner_.ops->lockListen(listener.inner, handle, secret);
  }
  static void encryptListen(void* listenComm, const TlsKey& key) {
    const auto& listener = *static_cast<Listener*>(listenComm);
    listener.net->inner_.ops->encryptListen(listener.inner, key);
  }
  static ncclResult_t closeListen(void* listenComm) {
    const std::unique_ptr<Listener> listener(static_cast<Listener*>(listenComm));
    return listener == nullptr ? ncclSuccess : listener->net->inner_.net->closeListen(listener->inner);
  }
  static void cancelListen(void* listenComm) {
    const std::unique_ptr<Listener> listener(static_cast<Listener*>(listenComm));
    if (listener != nullptr) listener->net->inner_.ops->cancelListen(listener->inner);
  }

  static ncclResult_t regMr(void* c, void* data, size_t size, int type, void** handle) {
    return comm(c)->regMr(data, size, type, handle);
  }
  /// The descriptor is of no use to a copy engine, which has the address.
  static ncclResult_t regMrDmaBuf(void* c, void* data, size_t size, int type, uint64_t, int, void** handle) {
    return comm(c)->regMr(data, size, type, handle);
  }
  static ncclResult_t deregMr(void* c, void* handle) { return comm(c)->deregMr(handle); }
  static ncclResult_t isend(void* c, void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
    return comm(c)->post(data, size, tag, mr, profiler, request);
  }
  static ncclResult_t irecv(void* c, int n, void** data, size_t* sizes, int* tags, void** mrs, void** profilers,
                            void** request) {
    *request = nullptr;
    if (n != 1) return ncclInvalidUsage;
    void* profiler = profilers == nullptr ? nullptr : profilers[0];
    return comm(c)->post(data[0], sizes[0], tags[0], mrs == nullptr ? nullptr : mrs[0], profiler, request);
  }
  /// A copy engine's writes are visible when its copy is done.
  static ncclResult_t iflush(void*, int, void**, int*, void**, void** request) {
    *request = nullptr;
    return ncclSuccess;
  }
  static ncclResult_t test(void* request, int* done, int* size) {
    auto& r = *static_cast<StagedRequest*>(request);
    return r.comm->test(r, done, size);
  }
  static ncclResult_t close(void* c) {
    const std::unique_ptr<StagedComm> owned(comm(c));
    return owned == nullptr ? ncclSuccess : owned->close();
  }
  static void fence(void* c) { comm(c)->fence(); }
  static void drain(void* c) { comm(c)->drain(); }
  static void tune(void* c) { comm(c)->tune(); }
  static bool sample(void* c, LaneSample* out) { return comm(c)->sample(out); }
  static bool ended(void* c) { return comm(c)->ended(); }

  static ncclNet_t net(const ncclNet_t& inner) {
    ncclNet_t t = inner;
    t.listen = listen, t.connect = connect, t.accept = accept, t.closeListen = closeListen;
    t.regMr = regMr, t.regMrDmaBuf = regMrDmaBuf, t.deregMr = deregMr;
    t.isend = isend, t.irecv = irecv, t.iflush = iflush, t.test = test;
    t.closeSend = close, t.closeRecv = close;
    t.getDeviceMr = nullptr, t.irecvConsumed = nullptr, t.setNetAttr = nullptr;
    return t;
  }
  static InnerOps ops(const InnerOps& inner) {
    InnerOps o =
        inner;  // cancelConnect, unlockHandle and encryptConnect work on the handle, which is the inner net's as it is
    o.fence = fence, o.cancelListen = cancelListen, o.drain = drain;
    o.testsInAnyOrder = true;
    o.fenceMayWait = true;    // for copies
    o.unconfirmed = nullptr;  // it takes the inner comm, and what is rescued there would go around the copies
    o.unread = nullptr;
    if (inner.sample != nullptr) o.sample = sample;
    if (inner.ended != nullptr) o.ended = ended;
    if (inner.tune != nullptr) o.tune = tune;
    if (inner.lockListen != nullptr) o.lockListen = lockListen;
    if (inner.encryptListen != nullptr) o.encryptListen = encryptListen;
    if (inner.accept != nullptr) o.accept = guardedAccept;
    return o;
  }
};

StagedNet::StagedNet(const InnerNet& inner, std::unique_ptr<DeviceCopy> copies, Warn warn, const StagingLimits& limits)
    : inner_(inner),
      warn_(std::move(warn)),
      copyLimitNs_(limits.copyNs),
      copies_(std::move(copies)),
      pool_(*copies_, limits.pinnedBytes),
      table_(StagedTable::net(*inner.net)),
      ops_(StagedTable::ops(*inner.ops)) {}

StagedNet::~StagedNet() = default;

void* StagedNet::context(void* innerCtx) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& context = contexts_[innerCtx];
  if (context == nullptr) context = std::make_unique<Context>(Context{this, innerCtx});
  return context.get();
}

void StagedNet::warnThrough(Warn warn) {
  const std::lock_guard<std::mutex> lock(mutex_);
  warn_ = std::move(warn);
}

void StagedNet::warn(const std::string& what) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (warn_ != nullptr) warn_("R2CC: staging over " + std::string(inner_.net->name) + ": " + what);
}

}  // namespace r2cc
