// The float32 data of one rank over the iterations: fill, check, refill.
//
// AllReduce works in place on one buffer; the other operations send from one buffer and receive into another.
#pragma once

#include "memory.h"
#include "options.h"

namespace r2cc::bench {

class RankData {
 public:
  explicit RankData(const Options& options);

  const FloatBuffer& sendBuffer() const { return send_; }
  const FloatBuffer& receiveBuffer() const { return inPlace_ ? send_ : receive_; }

  // Input of `index`.
  void fill(int64_t index);
  // Counts the wrong elements of the result of `index` and makes the input of the next iteration, block by block, so
  // that memory is passed over once.
  uint64_t checkAndRefill(int64_t index);
  // Self-test: flips the lowest bit of one element of the result.
  void corruptOne();

 private:
  uint64_t checkAllReduce(int64_t index);
  uint64_t checkStream(int64_t index) const;
  uint64_t checkAllToAll(int64_t index) const;

  Options options_;
  bool inPlace_;
  size_t elements_;
  FloatBuffer send_;
  FloatBuffer receive_;
};

}  // namespace r2cc::bench
