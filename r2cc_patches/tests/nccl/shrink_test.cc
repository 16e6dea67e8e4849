// NCCL's own ncclCommShrink and ncclCommRevoke (the patched init.cc and group.cc) on a communicator that has an error.
// CUDA stands still: a child that begins asks for the device's attributes first, and gets no further.
#include <cstdlib>
#include <memory>
#include <thread>

#include "check.h"
#include "group.h"
#include "nccl/standing.h"
#include "proxy.h"

using namespace r2cc::nccl::test;

namespace {

constexpr ncclResult_t kBegan = ncclUnhandledCudaError;  // what CUDA's standing still ends a child with

/// Rank 0 of three, of which the last is lost.
class Parent {
 public:
  explicit Parent(bool blocking = true) : comm_(static_cast<ncclComm*>(calloc(1, sizeof(ncclComm)))) {
    standing() = {};
    standing().abortFlag = &flag_;
    comm_->startMagic = comm_->endMagic = NCCL_MAGIC;
    comm_->nRanks = 3;
    comm_->config.blocking = blocking ? 1 : 0;
    comm_->abortFlag = &flag_;
    comm_->abortFlagDev = &flagOnDevice_;
    comm_->sharedRes = shared_.get();
    comm_->proxyState = proxy_.get();
  }
  ~Parent() {
    (void)ncclGroupJobAbort(comm_->groupJob);  // as ncclCommAbort does
    free(comm_);
  }
  Parent(const Parent&) = delete;
  Parent& operator=(const Parent&) = delete;

  ncclComm* operator->() { return comm_; }
  ncclComm* get() { return comm_; }
  /// As its progress thread does when a connection fails.
  void lose(ncclResult_t error) { proxy_->asyncResult = error; }
  ncclResult_t shrink(int flags) {
    int lost = 2;
    ncclComm_t child = nullptr;
    const ncclResult_t result = ended(ncclCommShrink(comm_, &lost, 1, &child, nullptr, flags));
    if (child != nullptr) dropHalfMade(child);
    return result;
  }
  ncclResult_t revoke() { return ended(ncclCommRevoke(comm_, NCCL_REVOKE_DEFAULT)); }
  ncclResult_t error() {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &found);
    return asked == ncclSuccess ? found : asked;
  }

 private:
  /// One that does not block returns at once, and is asked until it has come to something.
  ncclResult_t ended(ncclResult_t result) {
    if (comm_->config.blocking != 0) return result;
    while (error() == ncclInProgress) std::this_thread::yield();
    return error();
  }

  void dropHalfMade(ncclComm* child) {
    comm_->childAbortFlag = comm_->childAbortFlagDev = nullptr;
    free(child->abortFlag);
    free(child->abortFlagDev);
    free(child->abortFlagRefCount);
    free(child);
  }

  ncclComm* const comm_;
  uint32_t flag_ = 0, flagOnDevice_ = 0;
  const std::unique_ptr<ncclSharedResources> shared_ = std::make_unique<ncclSharedResources>();
  const std::unique_ptr<ncclProxyState> proxy_ = std::make_unique<ncclProxyState>();
};

}  // namespace

TEST(nccl_shrink_goes_on_without_lost_ranks) {
  for (const bool blocking : {true, false}) {
    Parent parent(blocking);
    parent.lose(ncclRemoteError);
    CHECK_EQ(parent.error(), ncclRemoteError);
    CHECK_EQ(parent.shrink(NCCL_SHRINK_ABORT), kBegan);
    CHECK_EQ(standing().childrenBegun, 1);
    CHECK_EQ(standing().synchronizedAborted, 1);
    CHECK_EQ(parent->revokedFlag, 1U);  // no collective waits for a progress thread that is no more
    CHECK_EQ(parent->shareResources, false);
  }
}

TEST(nccl_shrink_without_r2cc_is_as_nccl_has_it) {
  Parent parent;
  standing().mode = 0;
  parent.lose(ncclRemoteError);
  CHECK_EQ(parent.shrink(NCCL_SHRINK_ABORT), ncclRemoteError);
  CHECK_EQ(standing().childrenBegun, 0);
  CHECK_EQ(parent.error(), ncclRemoteError);
  CHECK_EQ(parent->revokedFlag, 0U);
}

TEST(nccl_shrink_keeps_errors_of_its_own_rank) {
  for (const ncclResult_t own :
       {ncclUnhandledCudaError, ncclSystemError, ncclInternalError, ncclInvalidArgument, ncclInvalidUsage}) {
    Parent parent;
    parent.lose(own);
    CHECK_EQ(parent.shrink(NCCL_SHRINK_ABORT), own);
    CHECK_EQ(standing().childrenBegun, 0);
    CHECK_EQ(parent.error(), own);
    CHECK_EQ(parent->revokedFlag, 0U);
  }
}

TEST(nccl_shrink_leaves_an_error_that_others_share) {
  Parent parent;
  parent->proxyState->refCount = 2;  // a child of splitShare or shrinkShare
  parent.lose(ncclRemoteError);
  CHECK_EQ(parent.shrink(NCCL_SHRINK_ABORT), ncclRemoteError);
  CHECK_EQ(standing().childrenBegun, 0);
  CHECK_EQ(parent.error(), ncclRemoteError);
}

TEST(nccl_shrink_forgets_nothing_unless_it_aborts) {
  Parent parent;
  parent.lose(ncclRemoteError);
  CHECK_EQ(parent.shrink(NCCL_SHRINK_DEFAULT), ncclRemoteError);
  CHECK_EQ(standing().childrenBegun, 0);
  CHECK_EQ(parent.error(), ncclRemoteError);
}

TEST(nccl_shrink_leaves_a_healthy_parent_alone) {
  Parent parent;
  CHECK_EQ(parent.shrink(NCCL_SHRINK_ABORT), kBegan);
  CHECK_EQ(standing().childrenBegun, 1);
  CHECK_EQ(parent->revokedFlag, 0U);
}

TEST(nccl_shrink_refuses_while_something_is_in_progress) {
  Parent parent(false);
  parent->asyncResult = ncclInProgress;
  parent.lose(ncclRemoteError);
  int lost = 2;
  ncclComm_t child = nullptr;
  CHECK_EQ(ncclCommShrink(parent.get(), &lost, 1, &child, nullptr, NCCL_SHRINK_ABORT), ncclInvalidArgument);
  CHECK_EQ(standing().childrenBegun, 0);
}

TEST(nccl_shrink_joins_a_group_that_failed_with_the_lost_rank) {
  Parent parent(false);
  auto* const failed = new ncclGroupJob{};  // as ncclGroupEndInternal makes it
  failed->nonBlockingInit = true;
  failed->groupRefCount = 1;
  failed->base.result = ncclRemoteError;
  failed->base.thread = std::thread([] {});
  parent->groupJob = failed;
  parent->asyncResult = ncclRemoteError;
  CHECK_EQ(parent.shrink(NCCL_SHRINK_ABORT), kBegan);
  CHECK_EQ(standing().childrenBegun, 1);
}

TEST(nccl_revoke_forgets_lost_ranks_too) {
  Parent parent;
  parent.lose(ncclRemoteError);
  CHECK_EQ(parent.revoke(), ncclSuccess);
  CHECK_EQ(parent.error(), ncclSuccess);
  CHECK_EQ(parent.shrink(NCCL_SHRINK_DEFAULT), kBegan);
  CHECK_EQ(standing().childrenBegun, 1);
  Parent ill;
  ill.lose(ncclInternalError);
  CHECK_EQ(ill.revoke(), ncclSuccess);
  CHECK_EQ(ill.shrink(NCCL_SHRINK_DEFAULT), ncclInternalError);
}
