// How much a schedule's connection may have under way. What stands in a NIC's queue is what a chain must fill before it
// runs at its rate, and NCCL by itself lets eight messages stand there. NCCL's thread, under the connection's
// ownership.
#pragma once

#include <cstddef>
#include <cstdint>

namespace r2cc {

class SendWindow {
 public:
  /// `most`: bytes (r2ccScheduleConnects); 0: the connection belongs to no schedule, and has no limit either.
  explicit SendWindow(uint64_t most) : most_(most) {}
  bool ofSchedule() const { return most_ != 0; }
  bool limits() const { return most_ != 0 && most_ != UINT64_MAX; }
  /// Two messages have room always, however large: else the NIC would rest between them.
  bool full(size_t size) const { return oldest_ < newest_ && under_ + size > most_; }
  /// The next message, whose first part has this number.
  void given(uint64_t number, size_t size) { newest_ = number, under_ += size; }
  /// The first message, or part of one, that is not known to be with the receiver; `passed` when it is, with its size.
  uint64_t oldest() const { return oldest_; }
  void passed(size_t size) { under_ -= size, oldest_++; }

 private:
  const uint64_t most_;
  uint64_t under_ = 0, oldest_ = 0, newest_ = 0;
};

}  // namespace r2cc
