// What the patches call in NCCL's communicator, task and channel code. Ranks compare their settings in every mode; the
// rest is of R2CC_MODE=3, and does nothing for a communicator without schedules, whose `r2cc` is null: one branch is
// what that costs.
#pragma once

#include "comm.h"

/// fillInfo: what this rank has set, into what NCCL's ranks tell each other first of all. Zero before.
void r2ccFillTerms(char* terms, size_t size);
/// initTransportsRank, once all have told: an error, the same on every rank, where they differ.
ncclResult_t r2ccCompareTerms(const struct ncclComm* comm);
/// connect.cc, instead of ncclGetDtree: nodes that lost NICs have its light slots.
ncclResult_t r2ccGetDtree(const struct ncclComm* comm, int nodes, int node, int* up0, int* down00, int* down01,
                          int* which0, int* up1, int* down10, int* down11, int* which1);
/// initTransportsRank, before channels are copied to the device: chain channels are connected, ranks learn of each
/// other's NICs; rank 0 says whether R2CC is in the path. Collective over the communicator.
ncclResult_t r2ccCommInit(struct ncclComm* comm);
/// commFree, before the bootstrap closes.
void r2ccCommFree(struct ncclComm* comm);
/// ncclCommShrink with NCCL_SHRINK_ABORT and ncclCommRevoke, once what ran is aborted: an error that says that ranks
/// are lost is no reason any more not to make a communicator of the others. Other errors stay.
void r2ccForgetLostRanks(struct ncclComm* comm);
/// ncclPrepareTasks, first: takes the decision that holds for this group. Sets `needConnect` where that needs it.
ncclResult_t r2ccGroupEnter(struct ncclComm* comm, bool* needConnect);
/// ncclCollPreconnect, first: where that is called because of `needConnect`, the connections that a schedule lacks.
ncclResult_t r2ccPreconnect(struct ncclComm* comm);
/// ncclPrepareTasks, where a task has got its algorithm: true if the task was taken apart into `queue`.
bool r2ccSplit(struct ncclComm* comm, struct ncclTaskColl* task,
               ncclIntruQueue<ncclTaskColl, &ncclTaskColl::next>* queue);
/// The chunk of a task that lies on one chain channel: NCCL's own choice knows trees of logarithmic depth only.
int r2ccChunkSize(struct ncclComm* comm, const struct ncclTaskColl* task, size_t bytes, int chunkSize);
/// ncclProxySaveOp: the tree that the operation has the host's part of. `inquires`: it is enqueued now. With CUDA
/// graphs NCCL asks again when the GPU comes to it; the channel may have another tree by then.
const struct ncclTree* r2ccTree(struct ncclComm* comm, struct ncclProxyOp* op, const bool* inquires);
/// net.cc, before this thread connects something with this index: nothing else is taken for a schedule's connection.
void r2ccConnects(int connIndex);
/// net.cc, where a connection is set up: one that is there for schedules alone has an index of its own.
int r2ccConnIndex(int connIndex);
/// net.cc, where its buffers are made: bytes of a protocol's, of which NCCL would make `size`. 0: it has none.
int r2ccBuffSize(int connIndex, int protocol, int size);
