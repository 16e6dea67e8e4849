#include "standalone/chosen_net.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/world_rank.h"
#include "net/net_process.h"
#include "standalone/nccl_version.h"
#include "standalone/other_net.h"

extern ncclNet_t ncclNetIb;
extern ncclNet_t ncclNetSocket;

namespace r2cc::plugin {
namespace {

/// A communicator's context. It is the inner net's own where there is one, as NCCL's RMA reads the traffic class in it;
/// sockets have none, and would all look alike.
struct Given {
  void* inner = nullptr;
  std::unique_ptr<ncclNetCommConfig_t> ours;  // in place of none
  int users = 0;                              // an inner net may give one context several times
};

/// Never destroyed: NCCL's threads may outlive main.
struct State {
  std::mutex mutex;
  ncclNet_t* net = nullptr;
  bool otherFailed = false;
  std::map<int, void*> contexts;  // by traffic class
  std::map<void*, Given> given;   // by what NCCL has for a communicator
  Log log = nullptr;              // of the last init, with the profiler
  Prof profiler = nullptr;
};
State& state() {
  static State& only = *new State;
  return only;
}

ncclResult_t tryNet(State& all, ncclNet_t* inner, void** ctx, uint64_t commId, ncclNetCommConfig_t* config, Log log,
                    Prof profiler) {
  ncclNet_t* net = r2ccWrapNet(inner);
  *ctx = nullptr;  // sockets leave it as it is: not as a net that was tried before
  if (net->init(ctx, commId, config, log, profiler) != ncclSuccess) return ncclSystemError;
  int devices = 0;
  if (net->devices(&devices) == ncclSuccess && devices > 0) {
    all.net = net;
    if (r2ccWraps(net) && worldRank() <= 0) NetProcess::instance().sayInPath();
    return ncclSuccess;
  }
  (void)net->finalize(*ctx);
  return ncclSystemError;
}

/// Under the mutex.
ncclResult_t init(State& all, void** ctx, uint64_t commId, int trafficClass, Log log, Prof profiler) {
  ncclNetCommConfig_t config{trafficClass};
  if (all.net != nullptr) return all.net->init(ctx, commId, &config, log, profiler);
  if (ncclNet_t* other = otherNet(log); other != nullptr && !all.otherFailed) {
    if (tryNet(all, other, ctx, commId, &config, log, profiler) == ncclSuccess) return ncclSuccess;
    all.otherFailed = true;
    refuseOtherNet(log, "it found no device, or its init failed (see above)");
  }
  if (tryNet(all, &ncclNetIb, ctx, commId, &config, log, profiler) == ncclSuccess) return ncclSuccess;
  return tryNet(all, &ncclNetSocket, ctx, commId, &config, log, profiler);
}

ncclResult_t ensureContext(State& all, int trafficClass, void** ctx) {
  const auto known = all.contexts.find(trafficClass);
  if (known != all.contexts.end()) return *ctx = known->second, ncclSuccess;
  const ncclResult_t result = init(all, ctx, 0, trafficClass, all.log, all.profiler);
  if (result == ncclSuccess) all.contexts[trafficClass] = *ctx;
  return result;
}

}  // namespace

ncclNet_t* chosenNet() { return state().net; }

ncclResult_t initChosen(int table, void** ctx, uint64_t commId, const Config* config, Log log, Prof profiler) {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  describeNccl(table, log);
  all.log = log;
  *ctx = nullptr;
  void* inner = nullptr;
  const ncclResult_t result = init(all, &inner, commId, trafficClassOf(config), log, profiler);
  if (result != ncclSuccess) return result;
  std::unique_ptr<ncclNetCommConfig_t> ours;
  if (inner == nullptr) ours = std::make_unique<ncclNetCommConfig_t>(ncclNetCommConfig_t{trafficClassOf(config)});
  *ctx = inner == nullptr ? ours.get() : inner;
  Given& given = all.given[*ctx];
  given.inner = inner;
  given.ours = std::move(ours);
  given.users++;
  return ncclSuccess;
}

bool innerContext(void* ctx, void** inner) {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto known = all.given.find(ctx);
  if (known == all.given.end()) return false;
  *inner = known->second.inner;
  return true;
}

ncclResult_t finalizeChosen(void* ctx) {
  State& all = state();
  std::unique_lock<std::mutex> lock(all.mutex);
  const auto known = all.given.find(ctx);
  if (known == all.given.end()) return ncclSuccess;
  void* inner = known->second.inner;
  if (--known->second.users == 0) all.given.erase(known);
  lock.unlock();  // the engine's end takes its time
  return all.net->finalize(inner);
}

ncclResult_t initOnce(int table, Log log, Prof profiler) {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  describeNccl(table, log);
  all.log = log;
  all.profiler = profiler;
  void* ctx = nullptr;
  return ensureContext(all, NCCL_NET_TRAFFIC_CLASS_UNDEF, &ctx);
}

ncclResult_t contextOf(int trafficClass, void** ctx) {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.net == nullptr ? ncclInvalidUsage : ensureContext(all, trafficClass, ctx);
}

ncclResult_t listenOnce(int dev, void* handle, void** listenComm) {
  void* ctx = nullptr;
  const ncclResult_t result = contextOf(NCCL_NET_TRAFFIC_CLASS_UNDEF, &ctx);
  return result != ncclSuccess ? result : chosenNet()->listen(ctx, dev, handle, listenComm);
}

ncclResult_t connectOnce(int trafficClass, int dev, void* handle, void** sendComm) {
  void* ctx = nullptr;
  const ncclResult_t result = contextOf(trafficClass, &ctx);
  return result != ncclSuccess ? result : connectChosen(ctx, dev, handle, sendComm);
}

ncclResult_t connectChosen(void* inner, int dev, void* handle, void** sendComm) {
  const State& all = state();
  if (r2ccWraps(all.net) || !r2ccRefuse(handle)) return all.net->connect(inner, dev, handle, sendComm, nullptr);
  if (all.log != nullptr) {
    all.log(NCCL_LOG_WARN, NCCL_NET, "r2cc", 0, "%s",
            "R2CC: the peer runs R2CC, and this rank does not (R2CC_MODE=0, or its net is passed through): use the "
            "same library and R2CC_MODE on all ranks");
  }
  return ncclInvalidUsage;
}

}  // namespace r2cc::plugin
