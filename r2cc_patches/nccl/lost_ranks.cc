#include "debug.h"
#include "group.h"
#include "proxy.h"
#include "r2cc_nccl.h"
#include "settings.h"

namespace {

/// Says that a peer or the network is gone: what R2CC's connections end with when no path is left, and what a broken
/// agreement does. Every other error is this rank's own (CUDA, memory, arguments, a bug) and would be in the child,
/// too.
bool forget(ncclResult_t& result) {
  if (__atomic_load_n(&result, __ATOMIC_ACQUIRE) != ncclRemoteError) return false;
  __atomic_store_n(&result, ncclSuccess, __ATOMIC_RELEASE);
  return true;
}

}  // namespace

void r2ccForgetLostRanks(struct ncclComm* comm) {
  if (r2cc::schedules::Settings::get().mode == 0) return;
  const bool failed = __atomic_load_n(&comm->asyncResult, __ATOMIC_ACQUIRE) == ncclRemoteError;
  if (failed && comm->groupJob != nullptr) {  // it ends by itself, and may set the error until then
    (void)ncclGroupJobComplete(comm->groupJob);
    comm->groupJob = nullptr;
  }
  const bool failedHere = forget(comm->asyncResult);
  // The thread that set it has ended with it: nobody sets it anew. Communicators that share it still need the error: a
  // collective of theirs would wait for that thread for ever.
  ncclProxyState* const proxy = comm->proxyState;
  const int own = comm->revokedFlag != 0 ? 0 : 1;  // ncclCommRevoke has taken itself off
  const bool failedThere = proxy != nullptr && proxy->refCount <= own && forget(proxy->asyncResult);
  if (!failedHere && !failedThere) return;
  comm->revokedFlag = 1;  // its progress thread is no more: a collective would wait for ever
  INFO(NCCL_INIT, "R2CC: comm %p rank %d has lost ranks: it may be shrunk now, and does nothing else any more", comm,
       comm->rank);
}
