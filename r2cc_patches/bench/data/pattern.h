// Input data whose exact sum every rank can compute alone.
//
// Element i of rank r in one iteration is scale_r * p(i) + offset_r: p(i) is an 11-bit hash of index, iteration and
// seed; scale_r is odd and different for every rank; offset_r has 12 bits. The sum over all ranks is therefore
// (sum of scales) * p(i) + (sum of offsets): one hash an element, whatever the number of ranks. With at most 64 ranks
// every partial sum, in any order, is a whole number below 2^24, hence exact in float32. A chunk lost, doubled, moved,
// left from an earlier iteration, or taken from another rank changes the sum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace r2cc::bench {

constexpr int kMaxRanks = 64;

// value(i) = scale * p(i) + offset
struct Affine {
  uint32_t scale = 0;
  uint32_t offset = 0;
};

class Pattern {
 public:
  // Iterations may be negative (warm-up).
  Pattern(uint64_t seed, int64_t iteration, int ranks);

  const Affine& inputOf(int rank) const { return inputs_[static_cast<size_t>(rank)]; }
  const Affine& sum() const { return sum_; }

  void fill(float* out, size_t count, uint64_t firstIndex, const Affine& form) const;

  // Compares bit for bit, so that NaN and -0 are wrong too.
  uint64_t countWrong(const float* data, size_t count, uint64_t firstIndex, const Affine& form) const;

 private:
  uint32_t key_;
  std::array<Affine, kMaxRanks> inputs_{};
  Affine sum_;
};

// The reduction: into[i] += from[i]. The two do not overlap.
void addInto(float* into, const float* from, size_t count);

}  // namespace r2cc::bench
