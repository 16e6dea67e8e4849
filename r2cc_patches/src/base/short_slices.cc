#include "base/short_slices.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace r2cc {
namespace {

constexpr uint64_t kSliceNs = 100'000;

/// The kernel's struct sched_attr, version 0; the C library has none.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;  // SCHED_OTHER
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = kSliceNs, deadline = 0, period = 0;
};

}  // namespace

void askForShortSlices() {
  SchedAttr attr;
  attr.nice = getpriority(PRIO_PROCESS, 0);
  (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace r2cc
