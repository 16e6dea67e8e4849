// When a receiver acknowledges what came: late enough to be cheap, soon enough that no sender waits for it. One a
// connection; NCCL's thread, under the connection's ownership.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/clock.h"

namespace r2cc {

/// Messages up to this size are kept by a sender whose transport takes any memory: copied in half a microsecond, where
/// the receiver's word takes a hundred.
constexpr size_t kKeepBytes = 16384;
/// And up to this size, if nothing comes behind them, when the kernel has them and the receiver's has not.
constexpr size_t kKeepLateBytes = 65536;
/// Both ends take it that the receiver has seen a message as large as this: it can be saved from a lost lane.
constexpr size_t kKnownBytes = 32768;
/// At most so many are kept of a connection, and so many bytes; less where many connections of a peer share its NICs:
/// all of it is on its way at once, and goes out again when a NIC is lost.
constexpr size_t kMostCopies = 128, kMostCopyBytes = 32 * kKeepBytes, kMostPeerCopyBytes = 16 * kMostCopyBytes;

/// Messages whose sender sees that the receiver's kernel has them are acknowledged when there are so many. It waits for
/// that when it is as far ahead as Fenced can name.
constexpr uint64_t kRescuedDue = 8;

/// What one of `connections` to a peer may keep. Both ends count them, a little apart in time.
constexpr size_t copyBudget(size_t connections) {
  return std::clamp(kMostPeerCopyBytes / std::max<size_t>(connections, 1), 2 * kKeepBytes, kMostCopyBytes);
}

class AckRule {
 public:
  using Clock = int64_t (*)();
  explicit AckRule(Clock clock = nowNs) : clock_(clock) {}

  /// NCCL mostly has as many receives waiting here as the sender has slots (4 or 8): an acknowledgement for half of
  /// them comes before the sender starves, and at once for the last.
  static constexpr uint64_t every(int waiting) { return static_cast<uint64_t>(std::clamp((waiting + 1) / 2, 1, 4)); }

  /// Who has an eye on a message until it is acknowledged.
  enum class Sender { Waits, KeepsCopy, SeesOurKernel };
  /// A message is here, or a part of one. Who keeps a copy waits only when there are too many.
  void arrived(uint64_t number, size_t bytes, Sender sender, bool part = false) {
    large_ = bytes >= kLargeBytes || (part && sender == Sender::Waits);
    if (part) partsBelow_ = std::max(partsBelow_, number + 1);
    const bool kept = sender == Sender::KeepsCopy;
    if (sender == Sender::SeesOurKernel) rescuedBelow_ = std::max(rescuedBelow_, number + 1);
    uint16_t& mine = bytes_[number % kMostCopies];
    keptBytes_ -= mine;
    mine = kept ? static_cast<uint16_t>(bytes) : 0;
    keptBytes_ += mine;
    if (sender == Sender::Waits) awaitedBelow_ = std::max(awaitedBelow_, number + 1), awaitedNs_ = clock_();
  }
  /// Messages below `delivered` are here, those below `whole` with all parts of NCCL's messages, those below `acked`
  /// were acknowledged, NCCL waits for `waiting` more, and the sender keeps up to `budget` bytes: half of them come
  /// before it has to wait.
  bool due(uint64_t delivered, uint64_t whole, uint64_t acked, int waiting, size_t budget) {
    for (; seenAcked_ < acked; seenAcked_++) keptBytes_ -= std::exchange(bytes_[seenAcked_ % kMostCopies], uint16_t{0});
    const uint64_t unacked = delivered - acked;
    if (unacked == 0) return false;
    if (awaitedBelow_ <= acked) {
      return unacked >= (rescuedBelow_ > acked ? kRescuedDue : kMostCopies / 2) || keptBytes_ >= budget / 2;
    }
    // A sender may have fewer slots than there are receives waiting here.
    const bool enough = partsBelow_ > acked ? whole > acked : unacked >= every(waiting);
    return enough || clock_() - awaitedNs_ >= kAfterNs;
  }
  /// All of a message that was cut is here, and its sender waits for that: it was cut because there are few of them.
  bool starves(uint64_t whole, uint64_t acked) const {
    return partsBelow_ > acked && awaitedBelow_ > acked && whole > acked;
  }
  /// No sender waits for it, and NCCL has its message first: a datagram takes its thread 12 us.
  bool laterWillDo(uint64_t delivered, uint64_t acked) const {
    return awaitedBelow_ <= acked && rescuedBelow_ > acked && delivered - acked < 2 * kRescuedDue;
  }
  /// What is due may wait `sinceNs` for other connections of the peer, of which NCCL waits for so many messages: one
  /// datagram does for all, and costs either end as much as receiving some. The sender is far from starving, however
  /// few slots it has, or has nobody here who would take more.
  static constexpr bool waitsForOthers(uint64_t unacked, int waiting, int others, int64_t sinceNs) {
    return others > 0 && unacked < (waiting == 0 ? kMostUnasked : kMostAsked) && sinceNs < kWaitNs;
  }
  /// The sender waits for this one and nothing else.
  bool urgent(int waiting) const { return large_ && waiting == 0; }

 private:
  static constexpr uint64_t kMostUnasked = 4, kMostAsked = 2;
  static constexpr int64_t kWaitNs = usToNs(500);
  static constexpr int64_t kAfterNs = msToNs(2);
  static constexpr size_t kLargeBytes = 65536;
  Clock clock_;
  bool large_ = false;                // the last message
  uint16_t bytes_[kMostCopies] = {};  // of messages from seenAcked_ on, where their sender keeps a copy
  size_t keptBytes_ = 0;              // their sum
  uint64_t seenAcked_ = 0;
  uint64_t awaitedBelow_ = 0;  // the last that its sender waits for, and one more
  uint64_t partsBelow_ = 0;    // the last that is a part of a message, and one more
  uint64_t rescuedBelow_ = 0;  // the last that its sender sees in our kernel, and one more
  int64_t awaitedNs_ = 0;      // when that one came
};

}  // namespace r2cc
