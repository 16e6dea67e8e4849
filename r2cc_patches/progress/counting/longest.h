// The longest stretch of time since it was last asked for, with its begin: noted by NCCL's threads, taken by ours,
// without a lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace r2cc::progress {

struct Stretch {
  int64_t us = 0;
  int64_t beganNs = 0;  // monotonic; exact to 2 us
};

class Longest {
 public:
  void note(int64_t beganNs, int64_t endedNs) {
    const int64_t us = std::min((endedNs - beganNs) / 1000, kMostUs);
    if (us <= 0) return;
    uint64_t before = word_.load(std::memory_order_relaxed);
    if (static_cast<uint64_t>(us) <= before >> kEndBits) return;
    const uint64_t mine = static_cast<uint64_t>(us) << kEndBits | (static_cast<uint64_t>(endedNs / 1000) & kEndMask);
    while (mine >> kEndBits > before >> kEndBits &&
           !word_.compare_exchange_weak(before, mine, std::memory_order_relaxed)) {
    }
  }

  /// The longest since the last call. Of the end the low bits are kept: it lies within two hours before `nowNs`.
  Stretch take(int64_t nowNs) {
    const uint64_t word = word_.exchange(0, std::memory_order_relaxed);
    if (word == 0) return {};
    const auto us = static_cast<int64_t>(word >> kEndBits);
    const auto ago = static_cast<int64_t>((static_cast<uint64_t>(nowNs / 1000) - word) & kEndMask);
    // One that ended after `nowNs` was read seems to lie a whole round back.
    const int64_t endUs = nowNs / 1000 - (ago > kRoundUs / 2 ? ago - kRoundUs : ago);
    return {us, (endUs - us) * 1000};
  }

  static constexpr int64_t kMostUs = (int64_t{1} << 31) - 1;  // 35 minutes

 private:
  static constexpr unsigned kEndBits = 33;
  static constexpr int64_t kRoundUs = int64_t{1} << kEndBits;
  static constexpr uint64_t kEndMask = (uint64_t{1} << kEndBits) - 1;
  std::atomic<uint64_t> word_{0};  // the length above, so that the greater word is the longer stretch
};

}  // namespace r2cc::progress
