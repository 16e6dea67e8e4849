// The float32 data of one rank over the iterations: fill, check, refill.
//
// AllReduce works in place on one buffer; the other operations send from one buffer and receive into another.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "bench/data/memory.h"
#include "bench/data/pattern.h"
#include "bench/options.h"

namespace r2cc::bench {

class RankData {
 public:
  explicit RankData(const Options& options)
      : options_(options),
        inPlace_(options.op == Op::AllReduce),
        elements_(options.bytes / sizeof(float)),
        send_(options.bytes),
        receive_(inPlace_ ? FloatBuffer() : FloatBuffer(options.bytes)) {}

  const FloatBuffer& sendBuffer() const { return send_; }
  const FloatBuffer& receiveBuffer() const { return inPlace_ ? send_ : receive_; }

  // Input of `index`.
  void fill(int64_t index) {
    const Pattern pattern(options_.seed, index, options_.ranks);
    pattern.fill(send_.data(), elements_, 0, pattern.inputOf(options_.rank));
  }
  // Counts the wrong elements of the result of `index` and makes the input of the next iteration, block by block, so
  // that memory is passed over once.
  uint64_t checkAndRefill(int64_t index) {
    if (inPlace_) return checkAllReduce(index);
    const uint64_t wrong = options_.op == Op::Stream ? checkStream(index) : checkAllToAll(index);
    fill(index + 1);
    return wrong;
  }
  // Self-test: flips the lowest bit of one element of the result.
  // Element 0 of the next rank's block: it travels in every operation.
  void corruptOne() {
    const size_t block = elements_ / static_cast<size_t>(options_.ranks);
    const int from = (options_.rank + 1) % options_.ranks;
    float* victim = receiveBuffer().data() + static_cast<size_t>(from) * block;
    uint32_t bits = 0;
    std::memcpy(&bits, victim, sizeof(bits));
    bits ^= 1u;
    std::memcpy(victim, &bits, sizeof(bits));
  }

 private:
  static constexpr size_t kBlockElements = 32768;  // 128 KiB: stays in the core's cache between check and refill
  uint64_t checkAllReduce(int64_t index) {
    const Pattern now(options_.seed, index, options_.ranks);
    const Pattern next(options_.seed, index + 1, options_.ranks);
    const float once = 1 / std::pow(static_cast<float>(options_.ranks), static_cast<float>(options_.inARow - 1));
    uint64_t wrong = 0;
    for (size_t first = 0; first < elements_; first += kBlockElements) {
      const size_t count = std::min(kBlockElements, elements_ - first);
      // In a row they make sums of sums: powers of two times the first, which floats take back without a loss.
      if (once != 1) std::for_each(send_.data() + first, send_.data() + first + count, [&](float& x) { x *= once; });
      wrong += now.countWrong(send_.data() + first, count, first, now.sum());
      next.fill(send_.data() + first, count, first, next.inputOf(options_.rank));
    }
    return wrong;
  }
  uint64_t checkStream(int64_t index) const {
    const Pattern pattern(options_.seed, index, options_.ranks);
    const int from = (options_.rank + options_.ranks - 1) % options_.ranks;
    return pattern.countWrong(receive_.data(), elements_, 0, pattern.inputOf(from));
  }
  // Block p of the receive buffer is block `rank` of what rank p sent; the own block does not travel.
  uint64_t checkAllToAll(int64_t index) const {
    const Pattern pattern(options_.seed, index, options_.ranks);
    const size_t block = elements_ / static_cast<size_t>(options_.ranks);
    const uint64_t firstSent = static_cast<uint64_t>(options_.rank) * block;
    uint64_t wrong = 0;
    for (int from = 0; from < options_.ranks; from++) {
      if (from == options_.rank) continue;
      const float* data = receive_.data() + static_cast<size_t>(from) * block;
      wrong += pattern.countWrong(data, block, firstSent, pattern.inputOf(from));
    }
    return wrong;
  }

  Options options_;
  bool inPlace_;
  size_t elements_;
  FloatBuffer send_;
  FloatBuffer receive_;
};

}  // namespace r2cc::bench
