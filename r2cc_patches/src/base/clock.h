// Monotonic time. Wall clocks jump and must never drive a timeout.
//
// nowNs() is what journals and short pauses go by. runNs() leaves out the time in which this process did not run (it
// was stopped, its machine was suspended, it got no CPU): whatever waits for somebody else, holds and verdicts, goes by
// it, as our own stop is nobody's silence.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

namespace r2cc {

inline int64_t nowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

constexpr int64_t usToNs(int64_t us) { return us * 1000; }
constexpr int64_t msToNs(int64_t ms) { return ms * 1000000; }

class RunClock {
 public:
  int64_t now() const { return nowNs() - lost_.load(std::memory_order_relaxed); }
  /// We did not run in the `ns` before this moment. Counted once, whoever says so.
  void lost(int64_t ns) {
    const int64_t now = nowNs();
    int64_t until = until_.load(std::memory_order_relaxed);
    do {
      if (now <= until) return;
    } while (!until_.compare_exchange_weak(until, now));
    lost_.fetch_add(ns < now - until ? ns : now - until, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> lost_{0}, until_{0};  // until: what was before has been counted
};

/// The process's own.
inline RunClock runClock;  // NOLINT: constant-initialised, never destroyed

inline int64_t runNs() { return runClock.now(); }

}  // namespace r2cc
