// Inputs and expected sums: exact, different everywhere, and sharp enough to see every kind of misplaced data.
#include <cmath>
#include <set>
#include <vector>

#include "bench/data/pattern.h"
#include "check.h"

using namespace r2cc::bench;

namespace {

std::vector<float> inputOf(const Pattern& pattern, int rank, size_t count, uint64_t first = 0) {
  std::vector<float> data(count);
  pattern.fill(data.data(), count, first, pattern.inputOf(rank));
  return data;
}

std::vector<float> sumOf(const Pattern& pattern, int ranks, size_t count) {
  std::vector<float> sum(count, 0.0F);
  for (int rank = 0; rank < ranks; rank++) addInto(sum.data(), inputOf(pattern, rank, count).data(), count);
  return sum;
}

}  // namespace

TEST(pattern_sum_is_exact_for_every_number_of_ranks) {
  for (const int ranks : {2, 3, 4, 7, 64}) {
    const Pattern pattern(5, 3, ranks);
    const size_t count = 5000;  // not a multiple of any vector length
    const std::vector<float> sum = sumOf(pattern, ranks, count);
    CHECK_EQ(pattern.countWrong(sum.data(), count, 0, pattern.sum()), 0U);
  }
}

TEST(pattern_sum_does_not_depend_on_the_order) {
  const int ranks = 64;
  const Pattern pattern(1, 0, ranks);
  std::vector<float> backwards(3000, 0.0F);
  for (int rank = ranks - 1; rank >= 0; rank--) addInto(backwards.data(), inputOf(pattern, rank, 3000).data(), 3000);
  CHECK(backwards == sumOf(pattern, ranks, 3000));
}

TEST(pattern_values_are_whole_and_below_2_to_24) {
  const int ranks = kMaxRanks;
  const Pattern pattern(99, 17, ranks);
  for (const float value : sumOf(pattern, ranks, 20000)) {
    CHECK(value >= 0.0F && value < 16777216.0F && std::floor(value) == value);
  }
}

TEST(pattern_changes_with_seed_iteration_rank_and_index) {
  const size_t count = 4096;
  const auto base = inputOf(Pattern(1, 5, 4), 2, count);
  CHECK(base != inputOf(Pattern(2, 5, 4), 2, count));
  CHECK(base != inputOf(Pattern(1, 6, 4), 2, count));
  CHECK(base != inputOf(Pattern(1, -5, 4), 2, count));
  CHECK(base != inputOf(Pattern(1, 5, 4), 3, count));
  CHECK(base != inputOf(Pattern(1, 5, 4), 2, count, 1));
  CHECK(std::set<float>(base.begin(), base.end()).size() > 1000);
}

TEST(pattern_scales_differ_between_ranks) {
  const Pattern pattern(8, 21, 64);
  std::set<uint32_t> scales;
  for (int rank = 0; rank < 64; rank++) scales.insert(pattern.inputOf(rank).scale);
  CHECK_EQ(scales.size(), 64U);
}

// Most elements of a block must show each of these; one shared value in 2048 may hide by chance.
TEST(pattern_shows_lost_doubled_swapped_stale_and_moved_data) {
  const int ranks = 4;
  const size_t count = 8192;
  const Pattern pattern(3, 9, ranks);
  const size_t most = count * 99 / 100;
  const auto wrong = [&](const std::vector<float>& data) {
    return pattern.countWrong(data.data(), data.size(), 0, pattern.sum());
  };
  const std::vector<float> right = sumOf(pattern, ranks, count);

  std::vector<float> doubled = right;
  addInto(doubled.data(), inputOf(pattern, 1, count).data(), count);
  CHECK(wrong(doubled) > most);

  std::vector<float> swapped(count, 0.0F);
  for (const int rank : {0, 1, 1, 3}) addInto(swapped.data(), inputOf(pattern, rank, count).data(), count);
  CHECK(wrong(swapped) > most);

  CHECK(wrong(sumOf(Pattern(3, 8, ranks), ranks, count)) > most);

  std::vector<float> moved(right.begin() + 1, right.end());
  moved.push_back(right.front());
  CHECK(wrong(moved) > most);
}

TEST(pattern_counts_each_wrong_element_once_and_compares_bits) {
  const Pattern pattern(1, 0, 2);
  std::vector<float> data = sumOf(pattern, 2, 10000);
  data[0] = std::nanf("");
  data[5000] += 1.0F;
  data[9999] = -data[9999];
  CHECK_EQ(pattern.countWrong(data.data(), data.size(), 0, pattern.sum()), 3U);
  const Affine zero{0, 0};
  const std::vector<float> zeros{0.0F, -0.0F};
  CHECK_EQ(pattern.countWrong(zeros.data(), 2, 0, zero), 1U);
}

TEST(pattern_may_be_made_and_checked_in_pieces) {
  const Pattern pattern(7, 1, 4);
  const auto whole = inputOf(pattern, 1, 7000);
  const auto rest = inputOf(pattern, 1, 4000, 3000);
  CHECK(std::vector<float>(whole.begin() + 3000, whole.end()) == rest);
  CHECK_EQ(pattern.countWrong(rest.data(), rest.size(), 3000, pattern.inputOf(1)), 0U);
}
