// When to ask whether the receiver's kernel has what a lent slot holds. Each look is a system call of the thread that
// moves all data, and one that comes too early says nothing: on GPUs they cost an all-reduce of 1 MiB five per cent.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace r2cc {

/// One a connection; NCCL's progress thread alone.
class LentLooks {
 public:
  // With so many lent the GPU may have to wait; with all it does.
  static constexpr uint64_t kStepsThatMatter = 4, kAllSteps = 8;
  static constexpr int64_t kLeastNs = usToNs(20), kMostNs = usToNs(100);

  /// `steps` of NCCL's are lent.
  bool due(uint64_t steps, int64_t now) const {
    if (steps >= kAllSteps) return now >= std::min(next_, last_ + kLeastNs);
    return now >= (steps < kStepsThatMatter ? last_ + kMostNs : next_);  // till then they count as on their way
  }
  /// The GPU waits, and only the receiver's own word says that a slot is free.
  bool blind(uint64_t steps) const { return steps >= kAllSteps && lacking_ == 0; }
  /// A look showed that all is there.
  void allThere(int64_t now) { last_ = now; }
  /// Of message `number`, the oldest that is lent, the receiver's kernel lacks so many bytes; 0: nobody can say. The
  /// next look is due when they should be there, at the rate of late.
  void lacks(uint64_t number, uint64_t bytes, int64_t now) {
    const bool again = number == number_;
    const uint64_t came = again && bytes < lacking_ ? lacking_ - bytes : 0;
    if (came > 0) nsPerByte_ = static_cast<double>(now - last_) / static_cast<double>(came);
    const double wanted =
        again && came == 0 ? 2 * static_cast<double>(pause_) : nsPerByte_ * static_cast<double>(bytes);
    pause_ = std::max(kLeastNs, static_cast<int64_t>(std::min(wanted, static_cast<double>(kMostNs))));
    number_ = number, lacking_ = bytes;
    last_ = now, next_ = now + pause_;
  }

 private:
  uint64_t number_ = UINT64_MAX, lacking_ = 0;
  double nsPerByte_ = 0;
  int64_t pause_ = 0, last_ = 0, next_ = 0;
};

}  // namespace r2cc
