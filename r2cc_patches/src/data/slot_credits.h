// What NCCL's GPU may do with send buffers (slots) of messages that NCCL was told are done while the receiver may still
// lack them. Such a slot is our copy for as long as NCCL's fork publishes no head beyond it: the GPU writes to a slot
// again only when the head says so. So nothing need be copied, and NCCL's next collective begins at once. NCCL's
// progress thread alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace r2cc {

class SlotCredits {
 public:
  /// One of NCCL's messages that it was told is done: those below `end`, from `first` on.
  struct Told {
    uint64_t first = 0, end = 0;
    uint64_t head = 0;  // what NCCL publishes when its slot is free, in its steps
    bool lent = false;  // its slot is all that we have of it
  };
  /// NCCL has so many slots of a connection, so no more can be lent; it says itself how many steps those are.
  static constexpr size_t kMostTold = 16;

  /// With the first head NCCL says that it asks, from now on, before it publishes one.
  void begin(uint64_t head) { head_ = published_ = head, begun_ = true; }
  bool begun() const { return begun_; }
  bool empty() const { return count_ == 0; }
  /// Whether one more slot may be lent.
  bool room() const { return begun_ && count_ < kMostTold / 2; }
  /// NCCL asks after each message that it was told is done, in their order. False: there are more than NCCL has slots,
  /// so that this one counts as a part of the one before.
  bool told(const Told& message) {
    newest_ = message.head;
    if (count_ < kMostTold) return told_[(oldest_ + count_++) % kMostTold] = message, true;
    Told& last = told_[(oldest_ + count_ - 1) % kMostTold];
    last = {last.first, message.end, message.head, last.lent || message.lent};
    return false;
  }
  const Told& oldest() const { return told_[oldest_ % kMostTold]; }
  /// The oldest one's slot is free.
  void pass() {
    head_ = oldest().head;
    oldest_++, count_--;
  }
  /// What NCCL may publish, and does now.
  uint64_t publish() { return published_ = head_; }
  /// It was given a higher one since.
  bool news() const { return head_ != published_; }
  /// So many steps more it would, were nothing lent.
  uint64_t lentSteps() const { return count_ == 0 ? 0 : newest_ - head_; }

 private:
  std::array<Told, kMostTold> told_{};
  size_t oldest_ = 0, count_ = 0;
  uint64_t head_ = 0, newest_ = 0, published_ = 0;
  bool begun_ = false;
};

}  // namespace r2cc
