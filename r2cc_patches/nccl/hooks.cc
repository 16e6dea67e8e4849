#include "r2cc_nccl.h"

#include <exception>
#include <mutex>
#include <string>

#include "announce.h"
#include "base/process_life.h"
#include "debug.h"
#include "net/r2cc_net.h"
#include "peer_terms.h"
#include "schedules.h"

namespace {

using r2cc::schedules::Schedules;

Schedules* of(ncclComm* comm) { return static_cast<Schedules*>(comm->r2cc); }

/// Nothing of ours throws into NCCL.
template <typename Call>
ncclResult_t guarded(const char* what, Call call) {
  try {
    return call();
  } catch (const r2cc::agree::AgreementBroken& broken) {
    WARN("R2CC: %s", broken.what());
    return ncclRemoteError;
  } catch (const r2cc::agree::Disagreement& different) {
    WARN("R2CC: %s", different.what());
    return ncclInvalidUsage;
  } catch (const std::exception& error) {
    WARN("R2CC: %s: %s", what, error.what());
    return ncclInternalError;
  }
}

/// Once a process: frameworks make dozens of communicators.
void warnOfBuilds(const std::string& differ) {
  static std::once_flag once;
  std::call_once(once,
                 [&differ] { WARN("R2CC: %s. All speak the same protocol, so the job goes on", differ.c_str()); });
}

}  // namespace

void r2ccFillTerms(char* terms, size_t size) {
  using r2cc::schedules::kTermsBytes;
  r2cc::agree::writePeerTerms(r2cc::schedules::localTerms(), terms, kTermsBytes);
  const float left = r2cc::schedules::leftNow();
  memcpy(terms + kTermsBytes, &left, std::min(sizeof(left), size - kTermsBytes));
}

ncclResult_t r2ccCompareTerms(const struct ncclComm* comm) {
  return guarded("ranks cannot be compared", [comm] {
    const r2cc::agree::Compared found = r2cc::schedules::compared(comm->peerInfo, comm->nRanks);
    if (!found.error.empty()) {
      WARN("R2CC: the ranks do not agree: %s. Set it alike on all of them and start again", found.error.c_str());
      return ncclInvalidUsage;
    }
    if (comm->rank == 0 && !found.warning.empty()) warnOfBuilds(found.warning);
    return ncclSuccess;
  });
}

ncclResult_t r2ccCommInit(struct ncclComm* comm) {
  return guarded("schedules cannot be set up", [comm] {
    std::unique_ptr<Schedules> made;
    NCCLCHECK(Schedules::make(comm, made));
    comm->r2cc = made.release();
    r2cc::announce(*comm);
    return ncclSuccess;
  });
}

void r2ccCommFree(struct ncclComm* comm) {
  // In a forked child its threads are not there, and its locks may be held for ever: it is left as it is.
  if (!r2cc::inChild()) delete of(comm);
  comm->r2cc = nullptr;
  // Its connections may have nothing left to do, as those of a rank that ends well. The last one freed decides.
  r2ccNetAborts(comm->abortFlag != nullptr && __atomic_load_n(comm->abortFlag, __ATOMIC_ACQUIRE) != 0);
}

ncclResult_t r2ccGroupEnter(struct ncclComm* comm, bool* needConnect) {
  if (comm->r2cc == nullptr) return ncclSuccess;
  if (r2cc::inChild()) {
    WARN("R2CC: a forked child cannot use its parent's communicator");
    return ncclSystemError;
  }
  return guarded("a schedule cannot be taken", [comm, needConnect] { return of(comm)->enter(*needConnect); });
}

ncclResult_t r2ccPreconnect(struct ncclComm* comm) {
  if (comm->r2cc == nullptr) return ncclSuccess;
  return guarded("a schedule cannot be connected", [comm] { return of(comm)->connect(); });
}

bool r2ccSplit(struct ncclComm* comm, struct ncclTaskColl* task,
               ncclIntruQueue<ncclTaskColl, &ncclTaskColl::next>* queue) {
  return comm->r2cc != nullptr && of(comm)->split(task, queue);
}

const ncclTree* r2ccTree(struct ncclComm* comm, struct ncclProxyOp* op, const bool* inquires) {
  if (inquires != nullptr) op->r2ccTree = comm->r2cc == nullptr ? nullptr : of(comm)->treeNow(op->channelId);
  return op->r2ccTree != nullptr ? op->r2ccTree : &comm->channels[op->channelId].tree;
}

int r2ccChunkSize(struct ncclComm* comm, const struct ncclTaskColl* task, size_t bytes, int chunkSize) {
  return comm->r2cc == nullptr ? chunkSize : of(comm)->chunkSize(task, bytes, chunkSize);
}
