// Time stamps for the flight recorder: the processor's counter where it can be trusted (about 7 ns, half of what
// clock_gettime takes), else the monotonic clock itself. Turned into monotonic nanoseconds only when a dump is written.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace r2cc {

class TickClock {
 public:
  /// Trusts the counter if it runs at a constant rate and the kernel trusts it too. `trusted` is for tests.
  TickClock() : TickClock(counterIsSteady()) {}
  explicit TickClock(bool trusted);
  uint64_t now() const {
#if defined(__x86_64__)
    if (counter_) return __rdtsc();
#endif
    return static_cast<uint64_t>(nowNs());
  }
  /// Notes where the counter and the monotonic clock are now. Called every second, because the kernel steers that
  /// clock: times between two anchors are interpolated, so the error is that of one second's steering. Any thread.
  void anchor();
  /// Any thread. Times before the oldest anchor kept are extrapolated from it.
  int64_t toNs(uint64_t ticks) const;
  bool usesCounter() const { return counter_; }
  static bool counterIsSteady();

 private:
  struct Anchor {
    uint64_t ticks;
    int64_t ns;
  };
  static constexpr size_t kAnchors = 128;
  Anchor sample() const;
  const bool counter_;
  mutable std::mutex mutex_;
  std::vector<Anchor> anchors_;  // ascending; the first is where the process began, the rest the last kAnchors seconds
};

}  // namespace r2cc
