// Buffers of connections that schedules alone use: what NCCL's kernels put into a slot fits, whatever NCCL_BUFFSIZE is.
#include <thread>

#include "chain_buffers.h"
#include "check.h"
#include "r2cc_nccl.h"
#include "record/health_board.h"

using r2cc::schedules::SmallBuffers;

namespace r2cc {
namespace {
thread_local uint32_t connects = 0;
}
void connectsFor(uint32_t mark) { connects = mark; }
}  // namespace r2cc

TEST(nccl_buffers_of_schedules_are_small_for_the_thread_that_connects_them) {
  CHECK_EQ(r2ccConnIndex(0), 0);
  {
    const SmallBuffers outer(7);
    const int index = r2ccConnIndex(0);
    {
      const SmallBuffers inner(8);
      CHECK(r2ccConnIndex(0) != index);
    }
    CHECK_EQ(r2ccConnIndex(1), index);
    CHECK(r2ccConnIndex(0) != 0 && r2ccConnIndex(0) != 1);
    std::thread([] { CHECK_EQ(r2ccConnIndex(1), 1); }).join();
  }
  CHECK_EQ(r2ccConnIndex(1), 1);
}

TEST(nccl_buffers_of_schedules_hold_what_a_kernel_hands_on) {
  int schedules = 0;
  {
    const SmallBuffers small(0xfedcba9876543210);
    schedules = r2ccConnIndex(0);
  }
  for (const int mib : {1, 2, 4, 8, 64, 128, 1024}) {
    const int size = mib << 20;
    for (const int protocol : {NCCL_PROTO_LL, NCCL_PROTO_LL128, NCCL_PROTO_SIMPLE}) {
      CHECK_EQ(r2ccBuffSize(0, protocol, size), size);
      CHECK_EQ(r2ccBuffSize(1, protocol, size), size);
      if (protocol != NCCL_PROTO_SIMPLE) CHECK_EQ(r2ccBuffSize(schedules, protocol, size), 0);
    }
    const int slot = r2ccBuffSize(schedules, NCCL_PROTO_SIMPLE, size) / NCCL_STEPS;
    // A ring's slice lies in two slots, and is no smaller than a 32nd of the two that the kernel thinks it has.
    CHECK(size / NCCL_STEPS * 2 / 32 <= 2 * slot);
    CHECK(slot <= size / NCCL_STEPS);
  }
  CHECK_EQ(r2ccBuffSize(schedules, NCCL_PROTO_SIMPLE, 4 << 20), 2 << 20);
}

TEST(nccl_a_connection_s_index_says_to_which_schedule_it_belongs) {
  for (const uint64_t schedule : {uint64_t{0}, uint64_t{1}, uint64_t{r2cc::kMarks}, UINT64_MAX}) {
    int index = 0;
    {
      const SmallBuffers small(schedule);
      index = r2ccConnIndex(0);
    }
    CHECK(index > 1);
    std::thread([&] {  // NCCL's, that connects for all communicators of the process
      r2ccConnects(index);
      CHECK_EQ(r2cc::connects, r2cc::markOf(schedule));
      for (const int own : {0, 1}) {
        r2ccConnects(own);
        CHECK_EQ(r2cc::connects, r2cc::kNoSchedule);
      }
    })
        .join();
  }
}
