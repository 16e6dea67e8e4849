#include "memory/staged_comm.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace r2cc {
namespace {

constexpr auto kCopyPoll = std::chrono::microseconds(20);

}  // namespace

StagedComm::StagedComm(StagedNet& net, void* comm, bool sends) : net_(net), comm_(comm), sends_(sends) {
  for (StagedRequest& request : requests_) request.comm = this;
}

// ---- memory -----------------------------------------------------------------------------------------------------

ncclResult_t StagedComm::regMr(void* data, size_t size, int type, void** handle) {
  *handle = nullptr;
  auto mr = std::make_unique<StagedMr>(StagedMr{kHostMemory, nullptr, static_cast<const uint8_t*>(data), size});
  if (type == NCCL_PTR_CUDA) {
    mr->device = net_.copies_->deviceOf(data);
    if (mr->device < 0) return ncclInvalidUsage;
  } else {
    const ncclResult_t result = net_.inner_.net->regMr(comm_, data, size, type, &mr->handle);
    if (result != ncclSuccess) return result;
  }
  *handle = mr.release();
  return ncclSuccess;
}

ncclResult_t StagedComm::deregMr(void* handle) {
  const std::unique_ptr<StagedMr> mr(static_cast<StagedMr*>(handle));
  if (mr == nullptr) return ncclSuccess;
  if (mr->device == kHostMemory) return net_.inner_.net->deregMr(comm_, mr->handle);
  (void)waitForCopies(mr.get());
  for (StagedRequest& r : requests_) {
    if (r.mr == mr.get()) forget(r);
  }
  return ncclSuccess;
}

/// Its memory is gone. A send has left it already; what would be copied to it must not be.
void StagedComm::forget(StagedRequest& r) {
  r.mr = nullptr;
  const bool arriving = !sends_ && r.state == StagedState::Posted;
  if (arriving || r.state == StagedState::Copying) fail(r, ncclInvalidUsage);
}

/// The inner net's handle for what a message is sent from or received into.
bool StagedComm::handleOf(const StagedRequest& r, void** handle) {
  *handle = r.mr != nullptr && r.mr->device == kHostMemory ? r.mr->handle : nullptr;
  if (r.bounce == nullptr) return true;
  const auto known =
      std::find_if(registered_.begin(), registered_.end(), [&](auto& on) { return on.bounce == r.bounce; });
  if (known != registered_.end()) return *handle = known->handle, true;
  if (net_.inner_.net->regMr(comm_, r.bounce->data, r.bounce->size, NCCL_PTR_HOST, handle) != ncclSuccess) return false;
  registered_.push_back({r.bounce, *handle});
  return true;
}

// ---- messages ---------------------------------------------------------------------------------------------------

ncclResult_t StagedComm::post(void* data, size_t size, int tag, void* mr, void* profiler, void** request) {
  *request = nullptr;
  if (error_ != ncclSuccess) return error_;
  if (net_.stuck_) return ncclSystemError;
  StagedRequest& r = at(tail_);
  if (r.state != StagedState::Free) return ncclSuccess;  // as many as NCCL may have are under way
  r.data = data, r.size = size, r.tag = tag, r.profiler = profiler;
  r.mr = static_cast<const StagedMr*>(mr);
  r.bounce = nullptr, r.copy = nullptr, r.inner = nullptr;
  bool later = false;
  const ncclResult_t result = attach(r, &later);
  if (result != ncclSuccess || later) return result;
  r.state = StagedState::Ready;
  if (sends_ && r.bounce != nullptr && r.size > 0) {
    if (!startCopy(r)) return finish(r, StagedState::Free), ncclSystemError;
  } else if (!sends_ && !postInner(r)) {  // a receive that the inner net refuses for now never was
    finish(r, StagedState::Free);
    return error_;
  }
  tail_++;
  *request = &r;
  if (sends_) progress();
  return ncclSuccess;
}

/// Finds a bounce buffer for a message in GPU memory. An empty one needs it too: transports want registered memory.
ncclResult_t StagedComm::attach(StagedRequest& r, bool* later) {
  if (r.mr == nullptr || r.mr->device == kHostMemory) return ncclSuccess;
  const BouncePool::Answer answer = net_.pool_.take(r.size, held_ == 0, &r.bounce);
  *later = answer == BouncePool::Answer::NotYet;
  if (answer == BouncePool::Answer::Taken) held_++;
  if (answer != BouncePool::Answer::Never) return ncclSuccess;
  net_.warn("no pinned host memory for a message of " + std::to_string(r.size) + " bytes");
  return error_ = ncclSystemError;
}

ncclResult_t StagedComm::test(StagedRequest& r, int* done, int* size) {
  *done = 0;
  if (r.state != StagedState::Done) progress();
  if (r.state == StagedState::Done) {
    *done = 1;
    if (size != nullptr) *size = static_cast<int>(r.size);
    r.state = StagedState::Free;
    while (head_ < tail_ && at(head_).state == StagedState::Free) head_++;
    return ncclSuccess;
  }
  if (error_ == ncclSuccess) return ncclSuccess;
  // What is here whole is still copied to its place; with a net that tests in any order others may still be whole.
  const bool copying = !sends_ && r.state == StagedState::Copying;
  const bool hopeful = net_.inner_.ops->testsInAnyOrder && r.state == StagedState::Posted;
  return copying || hopeful ? ncclSuccess : error_;
}

void StagedComm::progress() {
  const bool anyOrder = net_.inner_.ops->testsInAnyOrder;
  bool mayPost = !drained_ && error_ == ncclSuccess;  // messages enter the inner comm in their order
  bool mayTest = anyOrder || error_ == ncclSuccess;
  for (uint64_t number = head_; number < tail_; number++) {
    StagedRequest& r = at(number);
    if (r.state == StagedState::Copying) pollCopy(r);
    if (r.state == StagedState::Ready && mayPost) (void)postInner(r);
    if (r.state == StagedState::Ready || (sends_ && r.state == StagedState::Copying)) mayPost = false;
    if (r.state == StagedState::Posted && mayTest) testInner(r);
    if (r.state == StagedState::Posted && !anyOrder) mayTest = false;
    if (error_ != ncclSuccess) mayPost = false, mayTest = anyOrder;
  }
}

bool StagedComm::startCopy(StagedRequest& r) {
  DeviceCopy& copies = *net_.copies_;
  r.copy = sends_ ? copies.toHost(r.mr->device, r.bounce->data, r.data, r.size)
                  : copies.toDevice(r.mr->device, r.data, r.bounce->data, r.size);
  if (r.copy == nullptr) return false;
  r.state = StagedState::Copying;
  return true;
}

void StagedComm::pollCopy(StagedRequest& r) {
  const DeviceCopy::State state = net_.copies_->poll(r.copy);
  if (state == DeviceCopy::State::Running) return;
  r.copy = nullptr;
  if (state == DeviceCopy::State::Failed) {
    net_.warn("a copy between GPU and host failed");
    return fail(r, ncclUnhandledCudaError);
  }
  if (sends_) {
    r.state = StagedState::Ready;
  } else {
    finish(r, StagedState::Done);
  }
}

/// False: not now, or an error.
bool StagedComm::postInner(StagedRequest& r) {
  const ncclNet_t& net = *net_.inner_.net;
  void* handle = nullptr;
  if (!handleOf(r, &handle)) return fail(r, ncclSystemError), false;
  void* data = dataOf(r);
  r.inner = nullptr;
  const ncclResult_t result = sends_ ? net.isend(comm_, data, r.size, r.tag, handle, r.profiler, &r.inner)
                                     : net.irecv(comm_, 1, &data, &r.size, &r.tag, &handle, &r.profiler, &r.inner);
  if (result != ncclSuccess) return fail(r, result), false;
  if (r.inner == nullptr) return false;
  r.state = StagedState::Posted;
  return true;
}

void StagedComm::testInner(StagedRequest& r) {
  int done = 0;
  int size = static_cast<int>(r.size);
  const ncclResult_t result = net_.inner_.net->test(r.inner, &done, &size);
  if (result != ncclSuccess) return fail(r, result);
  if (!done) return;
  r.inner = nullptr;
  if (sends_) return finish(r, StagedState::Done);
  r.size = static_cast<size_t>(size);
  arrived(r);
}

void StagedComm::arrived(StagedRequest& r) {
  if (r.bounce == nullptr || r.size == 0) return finish(r, StagedState::Done);
  if (!startCopy(r)) fail(r, ncclUnhandledCudaError);
}

void StagedComm::finish(StagedRequest& r, StagedState state) {
  r.state = state;
  if (r.bounce == nullptr) return;
  net_.pool_.give(r.bounce);
  r.bounce = nullptr;
  held_--;
}

/// The inner comm may go on using the bounce buffer until it is fenced: the buffer stays taken.
void StagedComm::fail(StagedRequest& r, ncclResult_t error) {
  r.state = StagedState::Failed;
  error_ = error;
}

// ---- the end ----------------------------------------------------------------------------------------------------

bool StagedComm::uses(const StagedRequest& r, const StagedMr* only) const {
  return r.state == StagedState::Copying && (only == nullptr || r.mr == only);
}

bool StagedComm::waitForCopies(const StagedMr* only) {
  const int64_t limit = nowNs() + net_.copyLimitNs_;
  while (true) {
    bool any = false;
    for (StagedRequest& r : requests_) {
      if (uses(r, only)) pollCopy(r);
      any |= uses(r, only);
    }
    if (!any) return true;
    if (nowNs() > limit) break;
    std::this_thread::sleep_for(kCopyPoll);
  }
  if (!net_.stuck_.exchange(true)) net_.warn("the GPU does not finish copies; nothing more is staged through the host");
  return false;
}

void StagedComm::drain() {
  drained_ = true;
  const InnerOps& ops = *net_.inner_.ops;
  if (ops.drain != nullptr) ops.drain(comm_);
  progress();
  if (!sends_) (void)waitForCopies(nullptr);
}

void StagedComm::fence() {
  if (fenced_) return;
  fenced_ = true;
  net_.inner_.ops->fence(comm_);  // bounce buffers first: now nobody writes to them but running copies
  const bool over = waitForCopies(nullptr);
  for (StagedRequest& r : requests_) {
    if (r.state == StagedState::Copying && !over) continue;  // its buffer is never used again
    finish(r, StagedState::Free);
  }
}

ncclResult_t StagedComm::close() {
  fence();
  for (const OnComm& on : registered_) (void)net_.inner_.net->deregMr(comm_, on.handle);
  return sends_ ? net_.inner_.net->closeSend(comm_) : net_.inner_.net->closeRecv(comm_);
}

}  // namespace r2cc
