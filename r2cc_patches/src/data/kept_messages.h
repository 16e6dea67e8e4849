// What a sender tells NCCL is done before the receiver said so: small messages of which it keeps a copy, and messages
// that the receiver's kernel confirmed. Under the connection's ownership.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "data/ack_rule.h"
#include "data/copy_pool.h"
#include "data/request.h"

namespace r2cc {

class KeptMessages {
 public:
  /// `possible`: every NIC's transport takes any host memory.
  KeptMessages(const Requests& requests, bool possible) : possible_(possible), requests_(requests) {}
  ~KeptMessages() {
    for (CopyBuffer& copy : copies_) giveBack(copy);
  }
  KeptMessages(const KeptMessages&) = delete;
  KeptMessages& operator=(const KeptMessages&) = delete;
  bool possible() const { return possible_; }
  /// Whether a message in host memory is copied before NCCL's call returns.
  bool wants(size_t size, bool host) const { return possible_ && host && size <= kKeepBytes; }
  /// Whether one that is in our kernel is copied late: NCCL has nothing else to send here, and begins no other
  /// collective before this one is over.
  bool wantsLate(const Request& r, bool host, uint64_t posted, uint64_t acked, size_t budget) {
    const bool waits = requests_[posted - 1].finished();  // the newest, too, is in our kernel
    if (!possible_ || !waits || !host || r.size > std::min(largest_, kKeepLateBytes)) return false;
    // The rest is for small ones, which cannot go without. It may have been acknowledged just now, and is then
    // forgotten.
    return roomFor(r.size + budget / 2, posted, acked, budget) && r.number >= first_;
  }
  /// Forgets the copies that are no longer needed, and learns which sizes the receiver knows. `posted` messages were
  /// given to us, those below `acked` are with the receiver.
  void settle(uint64_t posted, uint64_t acked) {
    for (; first_ < std::min(acked, posted); first_++) {
      const Request& r = requests_[first_];
      largest_ = std::max(largest_, r.size);
      if (r.inner != nullptr) break;  // it went out again, and its lane still names it
      if (r.surety == Surety::Copy) bytes_ -= r.size;
      giveBack(copies_[first_ % kMostCopies]);
    }
  }
  /// False: the copies that are still needed leave no room for one more of this size, which `posted` counts. All take
  /// `budget` bytes at most.
  bool roomFor(size_t size, uint64_t posted, uint64_t acked, size_t budget) {
    settle(posted, acked);
    return posted - first_ < kMostCopies && bytes_ + size <= budget;
  }
  /// From here on the message is ours: NCCL may change its buffer, deregister it, and close the connection.
  void keep(Request& r) {
    CopyBuffer& copy = copies_[r.number % kMostCopies];
    giveBack(copy);
    if (r.size > 0) {
      copy = CopyPool::ofProcess().take(r.size);
      memcpy(copy.bytes.get(), r.data, r.size);
    }
    bytes_ += r.size;
    r.surety = Surety::Copy;
    r.data = copy.bytes.get();
    r.mr = nullptr;
  }
  /// The receiver's kernel has all of it: no NIC can lose it any more, and the receiver saves it from a lane that it
  /// gives up (RecvConnection::rescue), for which it must not be larger than what it knows, nor too far ahead.
  bool confirmed(const Request& r, const std::vector<LanePtr>& lanes, uint64_t acked) const {
    return lacking(r, lanes, acked) == 0;
  }
  /// How many bytes of it the receiver's kernel lacks; kNobodyKnows where that cannot be said.
  static constexpr uint64_t kNobodyKnows = UINT64_MAX;
  uint64_t lacking(const Request& r, const std::vector<LanePtr>& lanes, uint64_t acked) const {
    if (!possible_ || r.number >= acked + Fenced::kMasked) return kNobodyKnows;
    // Of one that is larger than any before the receiver says nothing, nor of those behind it.
    for (uint64_t number = acked; number <= r.number; number++) {
      if (requests_[number].size > largest_) return kNobodyKnows;
    }
    const auto of = [&](const LanePtr& lane) { return lane->id == r.lane; };
    const auto lane = std::find_if(lanes.begin(), lanes.end(), of);
    if (lane == lanes.end() || !(*lane)->tells || (*lane)->error) return kNobodyKnows;
    const int64_t bytes = (*lane)->inner.ops->unconfirmed((*lane)->comm);
    if (bytes < 0) return kNobodyKnows;
    const uint64_t behind = (*lane)->moved.load(std::memory_order_relaxed) - r.mark;
    return static_cast<uint64_t>(bytes) - std::min(static_cast<uint64_t>(bytes), behind);
  }
  /// No copy below is needed.
  uint64_t first() const { return first_; }

 private:
  static void giveBack(CopyBuffer& copy) {
    if (copy.bytes) CopyPool::ofProcess().give(std::move(copy));
    copy = {};
  }

  const bool possible_;
  const Requests& requests_;
  CopyBuffer copies_[kMostCopies];  // by slot
  uint64_t first_ = 0;
  size_t bytes_ = 0;              // of all copies
  size_t largest_ = kKnownBytes;  // message that the receiver has acknowledged
};

}  // namespace r2cc
