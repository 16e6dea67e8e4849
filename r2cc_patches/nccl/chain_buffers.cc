#include "chain_buffers.h"

#include <algorithm>

#include "r2cc_nccl.h"
#include "record/health_board.h"

namespace r2cc::schedules {
namespace {

constexpr int kScheduleIndex = 0x52;  // NCCL's are 0 and 1
constexpr int kMostBuffer = 2 << 20;
thread_local int smallBuffers = 0;

}  // namespace

SmallBuffers::SmallBuffers() { smallBuffers++; }
SmallBuffers::~SmallBuffers() { smallBuffers--; }

int slotBytes(const ncclComm* comm) {
  return r2ccBuffSize(kScheduleIndex, NCCL_PROTO_SIMPLE, comm->buffSizes[NCCL_PROTO_SIMPLE]) / NCCL_STEPS;
}

}  // namespace r2cc::schedules

int r2ccConnIndex(int connIndex) {
  return r2cc::schedules::smallBuffers > 0 ? r2cc::schedules::kScheduleIndex : connIndex;
}

void r2ccConnects(int connIndex) { r2cc::connectsForSchedules(connIndex == r2cc::schedules::kScheduleIndex); }

int r2ccBuffSize(int connIndex, int protocol, int size) {
  if (connIndex != r2cc::schedules::kScheduleIndex) return size;
  if (protocol != NCCL_PROTO_SIMPLE) return 0;
  // NCCL's kernels hand on no less than a 128th of the buffer that they think it has, and a slice has a quarter of it.
  return std::min(size, std::max(r2cc::schedules::kMostBuffer, (size + 31) / 32));
}
