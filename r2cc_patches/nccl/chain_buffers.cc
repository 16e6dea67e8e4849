#include "chain_buffers.h"

#include <algorithm>
#include <utility>

#include "r2cc_nccl.h"
#include "record/health_board.h"

namespace r2cc::schedules {
namespace {

constexpr int kMostBuffer = 2 << 20;
// A connection's index, which NCCL hands on to the thread that connects it. NCCL's own are 0 and 1: those of schedules
// have 0x52 in their lowest byte, and above it whose they are.
constexpr int kScheduleIndex = 0x52, kMarkShift = 8;
thread_local int threadsIndex = 0;  // 0: NCCL's own

constexpr int indexOf(uint64_t schedule) {
  static_assert(kMarks <= INT32_MAX >> kMarkShift);
  return static_cast<int>(markOf(schedule)) << kMarkShift | kScheduleIndex;
}
constexpr bool ofSchedules(int connIndex) { return (connIndex & ((1 << kMarkShift) - 1)) == kScheduleIndex; }

}  // namespace

SmallBuffers::SmallBuffers(uint64_t schedule) : before_(std::exchange(threadsIndex, indexOf(schedule))) {}
SmallBuffers::~SmallBuffers() { threadsIndex = before_; }

int slotBytes(const ncclComm* comm) {
  return r2ccBuffSize(kScheduleIndex, NCCL_PROTO_SIMPLE, comm->buffSizes[NCCL_PROTO_SIMPLE]) / NCCL_STEPS;
}

}  // namespace r2cc::schedules

int r2ccConnIndex(int connIndex) {
  const int schedules = r2cc::schedules::threadsIndex;
  return schedules != 0 ? schedules : connIndex;
}

void r2ccConnects(int connIndex) {
  const int mark = connIndex >> r2cc::schedules::kMarkShift;
  r2cc::connectsFor(r2cc::schedules::ofSchedules(connIndex) ? static_cast<uint32_t>(mark) : r2cc::kNoSchedule);
}

int r2ccBuffSize(int connIndex, int protocol, int size) {
  if (!r2cc::schedules::ofSchedules(connIndex)) return size;
  if (protocol != NCCL_PROTO_SIMPLE) return 0;
  // NCCL's kernels hand on no less than a 128th of the buffer that they think it has, and a slice has a quarter of it.
  return std::min(size, std::max(r2cc::schedules::kMostBuffer, (size + 31) / 32));
}
