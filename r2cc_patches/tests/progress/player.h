// Plays NCCL to the library, which it loads as NCCL does: by name, in whatever version.
#pragma once

#include <dlfcn.h>
#include <nccl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "nccl_common.h"
#include "nccl_profiler.h"

namespace r2cc::play {

/// The library that lies beside the test.
inline void* library() {
  std::string path(4096, '\0');
  path.resize(static_cast<size_t>(readlink("/proc/self/exe", path.data(), path.size())));
  path = path.substr(0, path.rfind('/')) + "/libr2cc_progress.so";
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return handle;
}

struct Who {
  uint64_t hash = 0xabc;
  const char* name = "world";
  int rank = 1, ranks = 4, nodes = 2;
};

#define R2CC_VERSION(N)                                        \
  struct V##N {                                                \
    static constexpr int number = N;                           \
    static constexpr const char* symbol = "ncclProfiler_v" #N; \
    using Table = ncclProfiler_v##N##_t;                       \
    using Event = ncclProfilerEventDescr_v##N##_t;             \
    using State = ncclProfilerEventStateArgs_v##N##_t;         \
  }
R2CC_VERSION(1);
R2CC_VERSION(2);
R2CC_VERSION(3);
R2CC_VERSION(4);
R2CC_VERSION(5);
R2CC_VERSION(6);
#undef R2CC_VERSION

/// One communicator of one version.
template <typename Version>
class Player {
 public:
  explicit Player(const Who& who = {})
      : who_(who), table_(static_cast<typename Version::Table*>(dlsym(library(), Version::symbol))) {
    if (table_ == nullptr) throw std::runtime_error("no such version");
    if constexpr (Version::number >= 5) {
      table_->init(&context_, who.hash, &mask_, who.name, who.nodes, who.ranks, who.rank, nullptr);
    } else if constexpr (Version::number == 4) {
      table_->init(&context_, &mask_, who.name, who.hash, who.nodes, who.ranks, who.rank, nullptr);
    } else {
      table_->init(&context_, &mask_);
    }
  }
  ~Player() { finalize(); }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void finalize() {
    if (open_ && context_ != nullptr) table_->finalize(context_);
    open_ = false;
  }
  int mask() const { return mask_; }
  void* context() const { return context_; }

  /// A collective on `count` floats that NCCL has begun to launch.
  void* launch(size_t count) {
    typename Version::Event event{};
    event.type = ncclProfileColl;
    event.rank = who_.rank;
    event.coll.count = count;
    if constexpr (Version::number <= 3) {
      event.coll.name = who_.name;
      event.coll.commHash = who_.hash;
    }
    if constexpr (Version::number == 1) {
      event.coll.datatype = ncclFloat32;
    } else {
      event.coll.datatype = "ncclFloat32";
    }
    return start(event);
  }
  void* op(void* task, bool sends, pid_t process = getpid()) {
    typename Version::Event event{};
    event.type = ncclProfileProxyOp;
    event.parentObj = task;
    event.rank = who_.rank;
    event.proxyOp.pid = process;
    event.proxyOp.isSend = sends ? 1 : 0;
    return start(event);
  }
  void* step(void* op) {
    typename Version::Event event{};
    event.type = ncclProfileProxyStep;
    event.parentObj = op;
    return start(event);
  }
  void* other(uint64_t type) {
    typename Version::Event event{};
    event.type = static_cast<decltype(event.type)>(type);
    return start(event);
  }
  void stop(void* handle) { table_->stopEvent(handle); }
  void record(void* handle, ncclProfilerEventState_t state, size_t bytes) {
    typename Version::State more{};
    if constexpr (Version::number >= 4) more.proxyStep.transSize = bytes;
    table_->recordEventState(handle, state, Version::number >= 4 ? &more : nullptr);
  }
  /// The network has the step's data. Before version 4 the operation says how much that makes, of all it ever moved.
  void moved(void* op, void* step, bool sends, size_t bytes) {
    if constexpr (Version::number <= 3) {
      typename Version::State more{};
      more.proxyOp.transSize = everMoved_[sends ? 1 : 0];
      table_->recordEventState(op, sends ? ncclProfilerProxyOpSendPosted : ncclProfilerProxyOpRecvPosted, &more);
      more.proxyOp.transSize = everMoved_[sends ? 1 : 0] += bytes;
      table_->recordEventState(op, sends ? ncclProfilerProxyOpSendDone : ncclProfilerProxyOpRecvReceived, &more);
    }
    record(step, sends ? ncclProfilerProxyStepSendWait : ncclProfilerProxyStepRecvFlushWait, bytes);
  }
  /// A whole step, as NCCL's proxies go through it.
  void wholeStep(void* op, bool sends, size_t bytes) {
    void* handle = step(op);
    record(handle, sends ? ncclProfilerProxyStepSendGPUWait : ncclProfilerProxyStepRecvWait, 0);
    moved(op, handle, sends, bytes);
    if (!sends) record(handle, ncclProfilerProxyStepRecvGPUWait, bytes);
    stop(handle);
  }
  /// A whole collective that sends and receives `steps` steps of `bytes`.
  void collective(size_t count, int steps, size_t bytes) {
    void* task = launch(count);
    void* send = op(task, true);
    void* receive = op(task, false);
    stop(task);
    for (int i = 0; i < steps; i++) wholeStep(send, true, bytes), wholeStep(receive, false, bytes);
    stop(send), stop(receive);
  }

 private:
  void* start(typename Version::Event& event) {
    void* handle = this;  // what NCCL had there before
    table_->startEvent(context_, &handle, &event);
    return handle;
  }

  const Who who_;
  typename Version::Table* const table_;
  void* context_ = nullptr;
  int mask_ = 0;
  bool open_ = true;
  size_t everMoved_[2] = {777, 888};  // of the connection that receives and of that which sends
};

}  // namespace r2cc::play
