// One comm of a staged net: the inner comm, and the messages on their way between GPU, bounce buffer and wire.
//
//   send: Copying -> Ready -> Posted -> Done          recv: Posted -> Copying -> Done
// (host memory skips Copying). Whoever owns the comm calls; every test() moves all its messages.
#pragma once

#include <vector>

#include "memory/staging.h"

namespace r2cc {

struct StagedMr {
  int device;    // of the GPU, or kHostMemory
  void* handle;  // host memory: the inner net's
  const uint8_t* data;
  size_t size;
};
constexpr int kHostMemory = -1;

class StagedComm;

enum class StagedState : uint8_t { Free, Copying, Ready, Posted, Done, Failed };

struct StagedRequest {
  StagedComm* comm = nullptr;
  StagedState state = StagedState::Free;
  void* data = nullptr;
  size_t size = 0;
  int tag = 0;
  const StagedMr* mr = nullptr;
  void* profiler = nullptr;
  Bounce* bounce = nullptr;  // null: host memory, or nothing to copy
  void* copy = nullptr;      // while Copying
  void* inner = nullptr;     // while Posted
};

class StagedComm {
 public:
  StagedComm(StagedNet& net, void* comm, bool sends);
  StagedComm(const StagedComm&) = delete;
  StagedComm& operator=(const StagedComm&) = delete;

  ncclResult_t regMr(void* data, size_t size, int type, void** handle);
  /// Copies from or to this memory are over when it returns.
  ncclResult_t deregMr(void* handle);
  ncclResult_t post(void* data, size_t size, int tag, void* mr, void* profiler, void** request);
  ncclResult_t test(StagedRequest& request, int* done, int* size);
  /// What has arrived is copied to the end; what has not left never leaves.
  void drain();
  void fence();
  ncclResult_t close();
  void tune() { net_.inner_.ops->tune(comm_); }
  bool sample(LaneSample* out) const { return net_.inner_.ops->sample(comm_, out); }
  bool ended() const { return net_.inner_.ops->ended(comm_); }

 private:
  struct OnComm {
    const Bounce* bounce;
    void* handle;
  };

  StagedRequest& at(uint64_t number) { return requests_[number % NCCL_NET_MAX_REQUESTS]; }
  void progress();
  void pollCopy(StagedRequest& r);
  bool postInner(StagedRequest& r);
  void testInner(StagedRequest& r);
  void arrived(StagedRequest& r);
  bool startCopy(StagedRequest& r);
  void finish(StagedRequest& r, StagedState state);
  void fail(StagedRequest& r, ncclResult_t error);
  void forget(StagedRequest& r);
  ncclResult_t attach(StagedRequest& r, bool* later);
  bool handleOf(const StagedRequest& r, void** handle);
  bool uses(const StagedRequest& r, const StagedMr* only) const;
  /// False when they did not end within the limit: then nothing is staged any more.
  bool waitForCopies(const StagedMr* only);
  void* dataOf(const StagedRequest& r) const { return r.bounce == nullptr ? r.data : r.bounce->data; }

  StagedNet& net_;
  void* const comm_;
  const bool sends_;
  StagedRequest requests_[NCCL_NET_MAX_REQUESTS];
  uint64_t head_ = 0, tail_ = 0;  // messages not yet reported done
  int held_ = 0;                  // bounce buffers
  std::vector<OnComm> registered_;
  ncclResult_t error_ = ncclSuccess;
  bool drained_ = false, fenced_ = false;
};

}  // namespace r2cc
