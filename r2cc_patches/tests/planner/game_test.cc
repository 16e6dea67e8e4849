// The matrix game behind cuts of cycles: whatever costs are, the shares are as good as a bound that is found otherwise.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "budget.h"
#include "check.h"
#include "planner/shapes/game.h"

using namespace r2cc::planner;
using r2cc::check::much;

namespace {

using Matrix = std::vector<std::vector<double>>;
using Exact = long double;  // its exponents hold products of several costs of 1e-300

constexpr double kAboveBound = 1e-7;
constexpr double kNothing = 1e-321;  // sums of the smallest numbers there are lose some of them

class Draws {
 public:
  explicit Draws(uint64_t seed) : bits_(seed) {}
  size_t below(size_t count) { return bits_() % count; }
  double between(double low, double high) { return low + (high - low) * static_cast<double>(bits_() >> 11) * 0x1p-53; }
  double oneOf(std::initializer_list<double> values) { return *(values.begin() + below(values.size())); }

 private:
  std::mt19937_64 bits_;
};

template <class Cost>
Matrix drawn(Draws& draws, size_t rows, size_t columns, const Cost& cost) {
  Matrix out(rows, std::vector<double>(columns));
  for (std::vector<double>& row : out) {
    for (double& value : row) value = cost();
  }
  if (draws.below(4) == 0) out.back() = out.front();
  for (std::vector<double>& row : out) row.back() = draws.below(3) == 0 ? row.front() : row.back();
  return out;
}

/// No shares make the busiest row less than this, whatever weights rows are given: the least way's weighted mean.
Exact boundBy(const Matrix& cost, const std::vector<Exact>& weights) {
  Exact sum = 0, least = std::numeric_limits<Exact>::infinity();
  for (const Exact weight : weights) sum += weight;
  if (!(sum > 0)) return 0;
  for (size_t j = 0; j < cost.front().size(); j++) {
    Exact mean = 0;
    for (size_t i = 0; i < cost.size(); i++) mean += weights[i] / sum * cost[i][j];
    least = std::min(least, mean);
  }
  return least;
}

/// `lines` x = their last columns, by elimination; nothing if they have no one solution.
std::vector<Exact> solved(std::vector<std::vector<Exact>> lines) {
  const size_t count = lines.size();
  for (size_t k = 0; k < count; k++) {
    const auto larger = [&](const auto& a, const auto& b) { return std::abs(a[k]) < std::abs(b[k]); };
    std::swap(lines[k], *std::max_element(lines.begin() + static_cast<std::ptrdiff_t>(k), lines.end(), larger));
    if (lines[k][k] == 0) return {};
    for (size_t i = 0; i < count; i++) {
      const Exact factor = i == k ? 0 : lines[i][k] / lines[k][k];
      for (size_t j = k; j <= count; j++) lines[i][j] -= factor * lines[k][j];
    }
  }
  std::vector<Exact> out;
  out.reserve(count);
  for (size_t k = 0; k < count; k++) out.push_back(lines[k][count] / lines[k][k]);
  return out;
}

std::vector<size_t> membersOf(size_t set) {
  std::vector<size_t> out;
  for (size_t i = 0; set >> i != 0; i++) {
    if ((set >> i & 1) != 0) out.push_back(i);
  }
  return out;
}

/// The best bound of all weights that make as many ways equal as they use rows: that is the game's value
/// (Shapley and Snow 1950). For small games.
Exact bestBound(const Matrix& cost) {
  Exact best = 0;
  for (size_t someRows = 1; someRows >> cost.size() == 0; someRows++) {
    for (size_t someWays = 1; someWays >> cost.front().size() == 0; someWays++) {
      const std::vector<size_t> rows = membersOf(someRows), ways = membersOf(someWays);
      if (rows.size() != ways.size()) continue;
      std::vector<std::vector<Exact>> lines;
      for (const size_t way : ways) {
        Exact highest = 0;
        for (const size_t row : rows) highest = std::max<Exact>(highest, cost[row][way]);
        if (highest == 0) highest = 1;
        lines.emplace_back();
        for (const size_t row : rows) lines.back().push_back(cost[row][way] / highest);
        lines.back().push_back(1 / highest);
      }
      const std::vector<Exact> found = solved(std::move(lines));
      std::vector<Exact> weights(cost.size(), 0);
      for (size_t i = 0; i < found.size(); i++) weights[rows[i]] = std::max<Exact>(found[i], 0);
      best = std::max(best, boundBy(cost, weights));
    }
  }
  return best;
}

/// That the mix is one, that its value is what it comes to, and that this is no more than the bound.
bool holds(const Matrix& cost, const Mix& mix, Exact bound) {
  Exact sum = 0, busiest = 0;
  for (const double share : mix.shares) {
    if (!(share >= 0)) return false;
    sum += share;
  }
  for (const std::vector<double>& row : cost) {
    Exact load = 0;
    for (size_t j = 0; j < row.size(); j++) load += static_cast<Exact>(row[j]) * mix.shares[j];
    busiest = std::max(busiest, load);
  }
  return mix.shares.size() == cost.front().size() && std::abs(sum - 1) < 1e-12 &&
         std::abs(busiest - mix.value) <= busiest * 1e-12 + kNothing && busiest <= bound * (1 + kAboveBound) + kNothing;
}

}  // namespace

TEST(plan_least_maximum_of_known_games) {
  const Mix pennies = leastMaximum({{1, 3}, {3, 1}});
  CHECK(std::abs(pennies.value - 2) < 1e-12);
  CHECK(std::abs(pennies.shares[0] - 0.5) < 1e-12);
  const Mix dominated = leastMaximum({{1, 5}, {2, 6}});
  CHECK(std::abs(dominated.value - 2) < 1e-12);
  CHECK_EQ(dominated.shares[1], 0.0);
  const Mix degenerate = leastMaximum({{2, 2, 2}, {2, 2, 2}, {1, 2, 2}});
  CHECK(std::abs(degenerate.value - 2) < 1e-12);
}

TEST(plan_least_maximum_of_costs_that_are_nearly_nothing_or_very_large) {
  for (const double unit : {5e-324, 1e-300, 1e-13, 1e-12, 1e-11, 1e13, 1e300}) {
    CHECK_EQ(leastMaximum({{unit}}).value, unit);
    const Mix pennies = leastMaximum({{unit, 3 * unit}, {3 * unit, unit}});
    CHECK(std::abs(pennies.value - 2 * unit) <= 2e-12 * unit + kNothing);
    CHECK(std::abs(pennies.shares[0] - 0.5) < 1e-12);
  }
  CHECK_EQ(leastMaximum({{0}}).value, 0.0);
  CHECK_EQ(leastMaximum({{1, 0}, {2, 0}}).shares[1], 1.0);
  CHECK(std::abs(leastMaximum({{1, 0}, {0, 1}}).value - 0.5) < 1e-12);
  CHECK_EQ(leastMaximum({{1e-13, 1}, {1e-13, 1}}).shares[0], 1.0);
}

TEST(plan_least_maximum_of_drawn_small_games_of_all_scales) {
  const int games = much(4000, 400);
  int wrong = 0;
  for (int game = 0; game < games; game++) {
    Draws draws(static_cast<uint64_t>(game));
    const size_t rows = 1 + draws.below(4), columns = 1 + draws.below(4);
    const int kind = game % 6;
    const double low = draws.between(-300, 250), wide = draws.oneOf({0, 1, 12, 30, 300});
    const Matrix cost = drawn(draws, rows, columns, [&]() -> double {
      const double any = draws.between(1, 9) * std::pow(10, std::min(low + draws.between(0, wide), 299.0));
      if (kind == 0) return any;
      if (kind == 1) return draws.below(3) == 0 ? 0 : any;
      if (kind == 2) return 5e-324 * static_cast<double>(1 + draws.below(9));
      if (kind == 3) return std::pow(10, low) * (1 + 1e-13 * static_cast<double>(draws.below(5)));
      if (kind == 4) return draws.oneOf({1e-14, 1e-7, 1, 1e7, 1e14});
      return draws.oneOf({1e-300, 1e-12, 1, 1e300});
    });
    if (holds(cost, leastMaximum(cost), bestBound(cost))) continue;
    wrong++;
    std::fprintf(stderr, "game %d of %zu x %zu costs\n", game, rows, columns);
  }
  CHECK_EQ(wrong, 0);
}

// Many ties, and rows that differ by what is nearly rounding: these once read past the rows, went round for ever, or
// gave shares far from the best.
TEST(plan_least_maximum_ends_where_nearly_all_is_equal) {
  const int games = much(2000, 200);
  int wrong = 0;
  for (int game = 0; game < games; game++) {
    Draws draws(static_cast<uint64_t>(game));
    const size_t rows = 2 + draws.below(30), columns = 2 + draws.below(30);
    const double unit = draws.oneOf({1e-300, 1e-12, 1, 1e12, 1e300}), step = draws.oneOf({1, 0.1, 1e-9, 1e-12, 1e-15});
    const Matrix cost = drawn(draws, rows, columns, [&] {
      return unit * (1 + step * (draws.below(3) == 0 ? static_cast<double>(draws.below(9)) : 0));
    });
    // The rows' side of the game, as one of its own; of its answer only the weights are believed.
    Matrix other(columns, std::vector<double>(rows));
    for (size_t i = 0; i < rows; i++) {
      for (size_t j = 0; j < columns; j++) other[j][i] = 16 - cost[i][j] / unit;
    }
    const Mix weights = leastMaximum(other);
    const Exact bound = boundBy(cost, {weights.shares.begin(), weights.shares.end()});
    if (holds(cost, leastMaximum(cost), bound)) continue;
    wrong++;
    std::fprintf(stderr, "game %d of %zu x %zu costs\n", game, rows, columns);
  }
  CHECK_EQ(wrong, 0);
}
