// A fence for every thread of this process, asked for by one of them. So a thread that often passes some point needs no
// fence there against one that seldom asks: membarrier(2).
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace r2cc {

/// All threads have come by a full fence since the call. False where the kernel does not do it (before 4.14, or
/// forbidden in a container): then none has. The first call of a process may take some milliseconds.
inline bool fenceAllThreads() {
#ifdef SYS_membarrier
  constexpr int kFence = 1 << 3, kRegister = 1 << 4;  // "private expedited"; headers may be older than the kernel
  static const bool possible = syscall(SYS_membarrier, kRegister, 0, 0) == 0;
  return possible && syscall(SYS_membarrier, kFence, 0, 0) == 0;
#else
  return false;
#endif
}

/// What the other side needs between its store and its load: that the compiler leaves them in their order.
inline void fenceByOthers() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace r2cc
