// What a lane has carried and for how long, where the way from post to completion is the only clock there is (RDMA).
// The owner writes; the engine reads at any time, also in the middle of a message that takes longer than its looks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "inner/inner_net.h"

namespace r2cc {

class LaneClock {
 public:
  /// The owner: something is under way where nothing was.
  void begin(int64_t now) { since_.store(now, std::memory_order_relaxed); }
  /// The owner: the oldest message under way is over. `more`: others are under way behind it.
  void carried(size_t size, int64_t now, bool more) {
    const int64_t took = now - since_.load(std::memory_order_relaxed);
    since_.store(more ? now : kNothing, std::memory_order_relaxed);
    usualNs_.store(std::max<int64_t>(took, 1), std::memory_order_relaxed);
    usualBytes_.store(size, std::memory_order_relaxed);
    busyNs_.store(busyNs_.load(std::memory_order_relaxed) + took, std::memory_order_relaxed);
    bytes_.store(bytes_.load(std::memory_order_relaxed) + size, std::memory_order_release);
  }
  /// The engine: all so far, and of the message under way what the last one had carried in the same time. Counted at
  /// its end alone, a lane whose messages take long would rest in one look and carry twice as much in the next.
  LaneSample sample(int64_t now) const {
    LaneSample out;
    out.bytes = bytes_.load(std::memory_order_acquire);  // then what was written before it: nothing is counted twice
    out.busyNs = busyNs_.load(std::memory_order_relaxed);
    const int64_t since = since_.load(std::memory_order_relaxed);
    if (since == kNothing) return out;
    const int64_t usual = usualNs_.load(std::memory_order_relaxed), age = std::clamp<int64_t>(now - since, 0, kMostNs);
    const auto size = static_cast<double>(usualBytes_.load(std::memory_order_relaxed));
    out.busyNs += age;
    out.bytes += static_cast<uint64_t>(size * static_cast<double>(std::min(age, usual)) / static_cast<double>(usual));
    return out;
  }

 private:
  static constexpr int64_t kNothing = INT64_MIN;
  static constexpr int64_t kMostNs = int64_t{1} << 40;
  std::atomic<int64_t> since_{kNothing};  // when the oldest message under way could begin
  std::atomic<uint64_t> bytes_{0};
  std::atomic<int64_t> busyNs_{0};
  std::atomic<uint64_t> usualBytes_{0};  // of the last message, and how long it took
  std::atomic<int64_t> usualNs_{1};
};

}  // namespace r2cc
