// Takes an AllReduce apart into one task a channel: those along cycles and, for a ring's share, NCCL's own. What runs
// as rings on channels next to each other alone stays one task on all of them, as a rank's blocks lie whole in an
// AllGather.
#include <algorithm>
#include <cmath>

#include "chain_buffers.h"
#include "collectives.h"
#include "enqueue.h"
#include "planner/cost/model.h"
#include "schedules.h"
#include "settings.h"

namespace r2cc::schedules {
namespace {

constexpr size_t kAlign = 512;             // bytes: what a piece begins at, so that vectors stay whole
constexpr size_t kFewestOfChannel = 1024;  // elements; enqueue.cc gives channels multiples of half of it
/// NCCL's trees share their latency among the tasks of a group, chains do not: they must gain that much by bandwidth.
constexpr uint64_t kTimesInGroups = 4;

/// NCCL_ALGO and NCCL_PROTO are respected: what they exclude has no bandwidth in NCCL's own table.
bool allowed(const ncclComm* comm, const ncclTaskColl* task, bool chains) {
  return comm->bandwidths[task->func][chains ? NCCL_ALGO_TREE : NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] > 0;
}

int ringWarps(const ncclComm* comm) { return comm->maxThreads[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] / WARP_SIZE + 1; }

}  // namespace

const Schedules::Way* Schedules::wayOf(const ncclTaskColl* task) const {
  for (size_t i = 0; i < ways_.size(); i++) {
    if (kOperations[i].func == task->func) return ways_[i].pieces.empty() ? nullptr : &ways_[i];
  }
  return nullptr;
}

bool Schedules::split(ncclTaskColl* task, TaskQueue* queue) {
  const size_t size = ncclTypeSize(task->datatype);
  const Way* way = wayOf(task);
  if (way == nullptr || !allowed(comm_, task, way->chains)) return false;
  const uint64_t from = way->beats[static_cast<size_t>(task->algorithm)][static_cast<size_t>(task->protocol)];
  const size_t bytes = ncclFuncMaxSendRecvCount(task->func, comm_->nRanks, task->count) * size;
  if (from == UINT64_MAX || bytes / (comm_->planner.nTasksColl > 1 ? kTimesInGroups : 1) < from) return false;
  if (task->count < kFewestOfChannel * static_cast<size_t>(way->pieces.front().channels)) return false;
  const size_t grain = kAlign / size;
  const ncclTaskColl whole = *task;
  double share = 0;
  size_t begin = 0;
  for (size_t i = 0; i < way->pieces.size() && begin < whole.count; i++) {
    const Piece& piece = way->pieces[i];
    share += piece.share;
    const bool last = i + 1 == way->pieces.size();
    const auto until = static_cast<size_t>(std::llround(share * static_cast<double>(whole.count)) / grain * grain);
    const size_t to = last ? whole.count : std::min(whole.count, until);
    if (to <= begin) continue;
    ncclTaskColl* part = task;  // the first is the task itself
    if (begin > 0) {
      part = ncclMemoryPoolAlloc<ncclTaskColl>(&comm_->memPool_ncclTaskColl, &comm_->memPermanent);
      comm_->planner.nTasksColl++;
    }
    *part = whole;
    part->sendbuff = static_cast<const char*>(whole.sendbuff) + begin * size;
    part->recvbuff = static_cast<char*>(whole.recvbuff) + begin * size;
    part->count = to - begin;
    part->trafficBytes = whole.trafficBytes / whole.count * part->count;
    part->algorithm = piece.ring ? NCCL_ALGO_RING : NCCL_ALGO_TREE;
    part->protocol = NCCL_PROTO_SIMPLE;
    part->nMaxChannels = 1;
    part->nWarps = piece.ring ? ringWarps(comm_) : NCCL_MAX_NTHREADS / WARP_SIZE;
    part->isCollnet = part->isNvls = 0;
    part->devFuncId = ncclDevFuncId(part->func, part->opDev.op, part->datatype, part->algorithm, part->protocol);
    part->r2ccChannel = piece.channel + 1;
    part->r2ccChannels = piece.channels;
    ncclIntruQueueEnqueue(queue, part);
    begin = to;
  }
  return true;
}

/// A connection has at most NCCL_STEPS chunks under way. With large ones, what others wait for stands in a long queue
/// behind them; so a chunk takes a NIC some microseconds, and a chain is filled in a small part of its time.
int Schedules::chunkSize(const ncclTaskColl* task, size_t bytes, int chunkSize) const {
  if (task->r2ccChannel == 0) return chunkSize;
  const int steps = task->algorithm == NCCL_ALGO_RING ? task->chunkSteps : 1;
  chunkSize = std::min(chunkSize, steps * slotBytes(comm_));
  const Way* way = wayOf(task);
  if (way == nullptr || !way->chains) return chunkSize;
  const auto hops = static_cast<size_t>(way->hops);
  const int least = Settings::get().leastChunkBytes;
  const int most = std::max(least, mostChunkBytes_);
  // A ring beside chains has slices as large as their chunks.
  const int slices = task->algorithm == NCCL_ALGO_RING ? ALLREDUCE_CHUNKSTEPS / ALLREDUCE_SLICESTEPS : 1;
  const auto large = [&](int chunk) {
    return chunk > most || bytes / static_cast<size_t>(chunk) < hops * planner::kChunksPerHop;
  };
  while (chunkSize > least * slices && large(chunkSize / slices)) chunkSize /= 2;
  return chunkSize;
}

}  // namespace r2cc::schedules
