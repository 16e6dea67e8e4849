// What a sender tells NCCL is done before the receiver said so: small messages of which it keeps a copy, and messages
// that the receiver's kernel confirmed. Under the connection's ownership.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "data/ack_rule.h"
#include "data/request.h"

namespace r2cc {

class KeptMessages {
 public:
  /// `possible`: every NIC's transport takes any host memory.
  KeptMessages(const Requests& requests, bool possible) : possible_(possible), requests_(requests) {}
  bool possible() const { return possible_; }
  /// Whether a message in host memory is copied before NCCL's call returns.
  bool wants(size_t size, bool host) const { return possible_ && host && size <= kKeepBytes; }
  /// Whether one that is in our kernel is copied late: NCCL has nothing else to send here, and begins no other
  /// collective before this one is over.
  bool wantsLate(const Request& r, bool host, uint64_t posted, uint64_t acked, size_t budget);
  /// Forgets the copies that are no longer needed. False: those that are leave no room for one of this size. `posted`
  /// messages were given to us, those below `acked` are with the receiver; all copies take `budget` bytes at most.
  bool roomFor(size_t size, uint64_t posted, uint64_t acked, size_t budget);
  /// From here on the message is ours: NCCL may change its buffer, deregister it, and close the connection.
  void keep(Request& r);
  /// The receiver's kernel has all of it: no NIC can lose it any more, and the receiver saves it from a lane that it
  /// gives up (RecvConnection::rescue), for which it must not be larger than what it knows, nor too far ahead.
  bool confirmed(const Request& r, const std::vector<LanePtr>& lanes, uint64_t acked) const;
  /// The receiver has seen a message of this size.
  void acknowledged(size_t size) { largest_ = std::max(largest_, size); }
  /// No copy below is needed.
  uint64_t first() const { return first_; }

 private:
  struct Copy {
    std::unique_ptr<uint8_t[]> data;
    size_t size = 0;
  };
  const bool possible_;
  const Requests& requests_;
  Copy copies_[kMostCopies];  // by slot; small ones are used again
  uint64_t first_ = 0;
  size_t bytes_ = 0;              // of all copies
  size_t largest_ = kKnownBytes;  // message that the receiver has acknowledged
};

}  // namespace r2cc
