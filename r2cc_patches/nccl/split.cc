// Takes an AllReduce apart into one task a channel: chain channels and, for the ring's share, NCCL's own.
#include <algorithm>
#include <cmath>

#include "collectives.h"
#include "planner/cost/model.h"
#include "schedules.h"
#include "settings.h"

namespace r2cc::schedules {
namespace {

constexpr size_t kAlign = 512;  // bytes: what a piece begins at, so that vectors stay whole
/// NCCL's trees share their latency among the tasks of a group, chains do not: they must gain that much by bandwidth.
constexpr uint64_t kTimesInGroups = 4;

bool fits(const ncclComm* comm, const ncclTaskColl* task) {
  // NCCL_ALGO and NCCL_PROTO are respected: what they exclude has no bandwidth in NCCL's own table.
  return task->func == ncclFuncAllReduce && comm->bandwidths[task->func][NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] > 0;
}

int ringWarps(const ncclComm* comm) { return comm->maxThreads[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] / WARP_SIZE + 1; }

}  // namespace

bool Schedules::split(ncclTaskColl* task, TaskQueue* queue) {
  const size_t size = ncclTypeSize(task->datatype);
  if (active_.pieces.empty() || !fits(comm_, task)) return false;
  const uint64_t from = active_.beats[static_cast<size_t>(task->algorithm)][static_cast<size_t>(task->protocol)];
  if (from == UINT64_MAX || task->count * size / (comm_->planner.nTasksColl > 1 ? kTimesInGroups : 1) < from)
    return false;
  const size_t grain = kAlign / size;
  const ncclTaskColl whole = *task;
  double share = 0;
  size_t begin = 0;
  for (size_t i = 0; i < active_.pieces.size() && begin < whole.count; i++) {
    const Piece& piece = active_.pieces[i];
    share += piece.share;
    const bool last = i + 1 == active_.pieces.size();
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
    ncclIntruQueueEnqueue(queue, part);
    begin = to;
  }
  return true;
}

/// A connection has at most NCCL_STEPS chunks under way. With large ones, what others wait for stands in a long queue
/// behind them; so a chunk takes a NIC some microseconds, and a chain is filled in a small part of its time.
int Schedules::chunkSize(const ncclTaskColl* task, size_t bytes, int chunkSize) const {
  if (task->r2ccChannel == 0 || task->algorithm != NCCL_ALGO_TREE) return chunkSize;
  const auto hops = static_cast<size_t>(active_.hops);
  const int most = std::max(Settings::get().leastChunkBytes, chunkOfRate_);
  while (chunkSize > Settings::get().leastChunkBytes) {
    if (chunkSize <= most && bytes / static_cast<size_t>(chunkSize) >= hops * planner::kChunksPerHop) break;
    chunkSize /= 2;
  }
  return chunkSize;
}

}  // namespace r2cc::schedules
