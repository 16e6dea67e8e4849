// Where the engine writes what its NICs can carry, and any thread reads it (r2cc_health.h).
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "record/r2cc_health.h"

namespace r2cc {

class HealthBoard {
 public:
  /// An engine starts with these NICs; none: it ends.
  void open(std::vector<R2ccNicHealth> nics);
  /// By NIC, in the order of open(). The version only changes when a capacity does.
  void set(const std::vector<double>& capacities);
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  int read(R2ccNicHealth* out, int most) const;
  void uneven(int begins) {
    schedules_.fetch_add(1, std::memory_order_relaxed);
    uneven_.fetch_add(begins, std::memory_order_relaxed);
  }
  bool comparable() const { return uneven_.load(std::memory_order_relaxed) == 0; }
  /// Another number for each that came; 0: none loads NICs unevenly.
  uint64_t schedule() const { return comparable() ? 0 : schedules_.load(std::memory_order_relaxed); }
  void scheduleConnects(int begins, uint64_t window) {
    if (begins > 0) window_.store(window, std::memory_order_relaxed);
    connects_.fetch_add(begins, std::memory_order_relaxed);
  }
  /// Bytes that a connection which is made now may have under way; 0: it belongs to no schedule.
  uint64_t scheduleWindow() const {
    return connects_.load(std::memory_order_relaxed) > 0 ? window_.load(std::memory_order_relaxed) : 0;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<R2ccNicHealth> nics_;
  std::atomic<uint64_t> version_{0};
  std::atomic<int> uneven_{0};  // schedules that load NICs unevenly
  std::atomic<uint64_t> schedules_{0};
  std::atomic<int> connects_{0};
  std::atomic<uint64_t> window_{0};
};

/// The process's own.
HealthBoard& healthBoard();

}  // namespace r2cc
