#include "planner/shapes/game.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace r2cc::planner {
namespace {

constexpr double kTiny = 1e-12;
constexpr size_t kMostPivots = 100;  // a way; ten are many. Should it go round in circles, the shares so far are some

using Matrix = std::vector<std::vector<double>>;

std::vector<double> highestOf(const Matrix& cost) {
  std::vector<double> highest = cost.front();
  for (const std::vector<double>& row : cost) {
    for (size_t j = 0; j < highest.size(); j++) highest[j] = std::max(highest[j], row[j]);
  }
  return highest;
}

/// max sum(gain u), cost u <= 1, u >= 0: the slacks are a basis to begin with. Each way's costs are divided by the
/// highest of them, and the gain of the best is 1. So every variable, slacks too, stays between 0 and 1, and kTiny is
/// as little as it looks, whatever unit costs have.
struct Tableau {
  Matrix rows;               // one more column: the right hand side
  std::vector<double> gain;  // reduced gains; last: minus the objective
  std::vector<size_t> basis;
  std::vector<size_t> names;  // which variable stands in each column

  Tableau(const Matrix& cost, const std::vector<double>& highest) : rows(cost), names(highest.size()) {
    const double least = *std::min_element(highest.begin(), highest.end());
    for (size_t row = 0; row < rows.size(); row++) {
      for (size_t j = 0; j < highest.size(); j++) rows[row][j] /= highest[j];
      rows[row].push_back(1);
      basis.push_back(columns() + row);
    }
    for (const double high : highest) gain.push_back(least / high);
    gain.push_back(0);
    std::iota(names.begin(), names.end(), size_t{0});
  }

  size_t columns() const { return names.size(); }

  /// What gains most; columns() if nothing gains.
  size_t entering() const {
    const auto most = std::max_element(gain.begin(), gain.end() - 1);
    return *most > kTiny ? static_cast<size_t>(most - gain.begin()) : columns();
  }

  /// Of the rows whose variable is at 0 by the time that the first is kTiny below it, the one with the largest entry
  /// (Harris 1973): that of the first may be nothing but rounding.
  /// rows.size() if no row has an entry above kTiny. With exact numbers one always has: each variable is a term of some
  /// sum that stays 1 (its own row's, or the row's where its way costs most), with factors of at most 1. When it grows,
  /// one of the columns() other terms that can shrink does so by 1 / columns() of that or more.
  size_t leaving(size_t column) const {
    const auto until = [&](const std::vector<double>& row, double below) {
      return row[column] > kTiny ? (row.back() + below) / row[column] : std::numeric_limits<double>::infinity();
    };
    double step = std::numeric_limits<double>::max();
    for (const std::vector<double>& row : rows) step = std::min(step, until(row, kTiny));
    size_t found = rows.size();
    for (size_t i = 0; i < rows.size(); i++) {
      if (until(rows[i], 0) > step) continue;
      if (found == rows.size() || rows[i][column] > rows[found][column]) found = i;
    }
    return found;
  }

  /// The slack that leaves takes the column of what enters: the tableau stays as narrow as the problem.
  void pivot(size_t row, size_t column) {
    const double by = rows[row][column];
    for (size_t j = 0; j < rows[row].size(); j++) rows[row][j] = (j == column ? 1 : rows[row][j]) / by;
    const auto clear = [&](std::vector<double>& line) {
      const double factor = line[column];
      for (size_t j = 0; j < line.size(); j++) line[j] = (j == column ? 0 : line[j]) - factor * rows[row][j];
    };
    for (size_t i = 0; i < rows.size(); i++) {
      if (i != row) clear(rows[i]);
    }
    clear(gain);
    std::swap(basis[row], names[column]);
  }
};

/// Made to have the sum 1; the value is what they come to, not what the simplex method believes.
Mix mixOf(const Matrix& cost, std::vector<double> shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  Mix mix{std::move(shares), 0};
  for (const std::vector<double>& row : cost) {
    mix.value = std::max(mix.value, std::inner_product(row.begin(), row.end(), mix.shares.begin(), 0.0));
  }
  return mix;
}

}  // namespace

Mix leastMaximum(const std::vector<std::vector<double>>& cost) {
  const std::vector<double> highest = highestOf(cost);
  std::vector<double> shares(highest.size(), 0);
  const auto cheapest = std::min_element(highest.begin(), highest.end());
  if (*cheapest <= 0) {
    shares[static_cast<size_t>(cheapest - highest.begin())] = 1;
    return mixOf(cost, std::move(shares));
  }
  Tableau table(cost, highest);
  for (size_t pivots = 0; pivots < kMostPivots * shares.size(); pivots++) {
    const size_t column = table.entering();
    if (column == table.columns()) break;
    const size_t row = table.leaving(column);
    if (row == table.rows.size()) break;
    table.pivot(row, column);
  }
  for (size_t i = 0; i < table.rows.size(); i++) {
    const size_t way = table.basis[i];
    if (way < shares.size()) shares[way] = std::max(0.0, table.rows[i].back()) * (*cheapest / highest[way]);
  }
  return mixOf(cost, std::move(shares));
}

}  // namespace r2cc::planner
