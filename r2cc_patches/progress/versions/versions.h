// NCCL's profiler interface, in whatever version: which of its events we take, and what we make of them. A version's
// own file (v1.cc to v6.cc) has its table.
#pragma once

#include <nccl.h>
#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "nccl_common.h"
#include "nccl_profiler.h"
#include "progress/core.h"

namespace r2cc::progress {

constexpr int kWatched = ncclProfileColl | ncclProfileP2p | ncclProfileProxyOp | ncclProfileProxyStep;

/// Bytes of one element, of NCCL's name for a type or of its number; 0 for what is neither.
uint64_t bytesOf(const char* type);
uint64_t bytesOf(uint8_t type);

/// The end of every init().
ncclResult_t watch(void** context, int* mask, const Identity* identity, int watched = kWatched);

/// `Version` names the structures: Event, State.
template <typename Version>
struct Profiler {
  using Event = typename Version::Event;
  using State = typename Version::State;

  static ncclResult_t startEvent(void* context, void** handle, Event* event) {
    *handle = nullptr;
    if (context != nullptr) *handle = start(context, *event);
    return ncclSuccess;
  }

  static ncclResult_t stopEvent(void* handle) {
    if (handle != nullptr) Core::ours().stop(handle);
    return ncclSuccess;
  }

  static ncclResult_t recordEventState(void* handle, ncclProfilerEventState_t state, State* more) {
    if (handle == nullptr) return ncclSuccess;
    if (state == ncclProfilerProxyStepSendWait || state == ncclProfilerProxyStepRecvFlushWait) {
      Core::ours().moved(handle, Version::bytesOfStep(more));
    } else if (Version::countsByOperation && state <= ncclProfilerProxyOpRecvDone && more != nullptr) {
      Core::ours().counted(handle, Version::bytesOfOperation(*more));
    }
    return ncclSuccess;
  }

  static ncclResult_t finalize(void* context) {
    if (context != nullptr) Core::ours().end(context);
    return ncclSuccess;
  }

 private:
  static void* start(void* context, const Event& event) {
    switch (event.type) {
      case ncclProfileColl:
        Version::identify(context, event.rank, event.coll);
        return Core::ours().task(context, event.coll.count * bytesOf(event.coll.datatype));
      case ncclProfileP2p:
        Version::identify(context, event.rank, event.p2p);
        return Core::ours().task(context, event.p2p.count * bytesOf(event.p2p.datatype));
      case ncclProfileProxyOp:
        return Core::ours().op(context, event.proxyOp.pid, event.parentObj, event.proxyOp.isSend != 0);
      case ncclProfileProxyStep:
        return Core::ours().step(event.parentObj);
      default:
        return Version::startOther(context, event);
    }
  }
};

/// Versions 1 to 3: an operation counts its bytes, and its communicator is known from its first task on.
template <typename EventOf, typename StateOf>
struct Early {
  using Event = EventOf;
  using State = StateOf;
  static constexpr bool countsByOperation = true;
  static uint64_t bytesOfStep(const State*) { return 0; }
  static uint64_t bytesOfOperation(const State& state) { return state.proxyOp.transSize; }
  template <typename Task>
  static void identify(void* context, int rank, const Task& task) {
    if (Core::ours().identified(context)) return;
    Core::ours().identify(context, {task.commHash, task.name == nullptr ? "" : task.name, rank, 0, 0});
  }
  static void* startOther(void*, const Event&) { return nullptr; }
};

/// From version 4 on: a step says its bytes, and init() who the communicator is.
template <typename EventOf, typename StateOf>
struct Late {
  using Event = EventOf;
  using State = StateOf;
  static constexpr bool countsByOperation = false;
  static uint64_t bytesOfStep(const State* state) { return state == nullptr ? 0 : state->proxyStep.transSize; }
  static uint64_t bytesOfOperation(const State&) { return 0; }
  template <typename Task>
  static void identify(void*, int, const Task&) {}
  static void* startOther(void*, const Event&) { return nullptr; }
};

/// init() of versions 5 and later, in whose order the facts come.
template <int watched = kWatched>
ncclResult_t initLate(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                      ncclDebugLogger_t) {
  const Identity identity{hash, name == nullptr ? "" : name, rank, ranks, nodes};
  return watch(context, mask, &identity, watched);
}

inline ncclResult_t initEarly(void** context, int* mask) { return watch(context, mask, nullptr); }

/// What NCCL looks up by name.
template <typename Table, typename Version, typename Init>
constexpr Table table(Init init) noexcept {
  using Functions = Profiler<Version>;
  return {"r2cc", init, Functions::startEvent, Functions::stopEvent, Functions::recordEventState, Functions::finalize};
}

}  // namespace r2cc::progress
