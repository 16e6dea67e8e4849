// Monotonic time. Wall clocks jump and must never drive a timeout.
//
// nowNs() is what journals and short pauses go by. runNs() leaves out the time in which this process did not run (it
// was stopped, its machine was suspended, it got no CPU): whatever waits for somebody else, holds and verdicts, goes by
// it, as our own stop is nobody's silence.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <mutex>

namespace r2cc {

inline int64_t nowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

constexpr int64_t usToNs(int64_t us) { return us * 1000; }
constexpr int64_t msToNs(int64_t ms) { return ms * 1000000; }

/// The engine reads it every few milliseconds. Where nobody did for a tenth of a second, nobody ran: whoever reads it
/// first says so, as the engine may have been stopped anywhere, between two lines of a verdict, too.
class RunClock {
 public:
  int64_t now() {
    while (true) {
      const int64_t lost = lost_.load(std::memory_order_relaxed), now = nowNs();
      int64_t read = read_.load(std::memory_order_acquire);
      if (stopped(read, now)) {
        const std::lock_guard<std::mutex> lock(mutex_);
        settle();
        continue;
      }
      if (now - read >= kNotedNs) read_.compare_exchange_strong(read, now, std::memory_order_release);
      if (lost == lost_.load(std::memory_order_relaxed)) return now - lost;
    }
  }
  /// We did not run in the `ns` before this moment. Counted once, whoever says so.
  void lost(int64_t ns) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t read = read_.load(std::memory_order_relaxed), now = nowNs();
    count(ns, stopped(read, now) ? read : now);  // it was said before a stop
    settle();
  }
  /// How often nobody ran.
  uint32_t stops() const { return stops_.load(std::memory_order_relaxed); }

 private:
  static constexpr int64_t kStoppedNs = msToNs(100), kNotedNs = msToNs(1);

  static bool stopped(int64_t read, int64_t now) { return read != 0 && now - read >= kStoppedNs; }

  /// Counts a stop that nobody counted yet. Only then does the clock look read again, so that nobody returns a time
  /// with the stop in it. Under the mutex.
  void settle() {
    const int64_t read = read_.load(std::memory_order_relaxed), now = nowNs();
    if (!stopped(read, now)) return;
    count(now - read, now);
    stops_.fetch_add(1, std::memory_order_relaxed);
    read_.store(now, std::memory_order_release);
  }

  /// Leaves out the `ns` before `end`, as far as they are not left out yet. Under the mutex.
  void count(int64_t ns, int64_t end) {
    if (end <= until_) return;
    lost_.fetch_add(std::min(ns, end - until_), std::memory_order_relaxed);
    until_ = end;
  }

  std::mutex mutex_;
  int64_t until_ = 0;                       // what was before has been counted
  std::atomic<int64_t> lost_{0}, read_{0};  // read: when somebody read it last, to a millisecond
  std::atomic<uint32_t> stops_{0};
};

/// The process's own.
inline RunClock runClock;  // NOLINT: constant-initialised, never destroyed

/// It goes back where a stop is found after somebody read a time with the stop in it: what was noted then may lie
/// ahead.
inline int64_t runNs() { return runClock.now(); }

/// What was `value` at `then`, halved for each `halfNs` since; `value` where `then` lies ahead.
constexpr int64_t faded(int64_t value, int64_t then, int64_t now, int64_t halfNs) {
  return value >> std::clamp<int64_t>((now - then) / halfNs, 0, 62);
}

}  // namespace r2cc
