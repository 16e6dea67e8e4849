#include "planner/shapes/game.h"

#include <cstddef>

namespace r2cc::planner {
namespace {

constexpr double kTiny = 1e-12;

/// max sum(u), cost u <= 1, u >= 0: the slacks are a basis to begin with.
struct Tableau {
  std::vector<std::vector<double>> rows;  // one more column: the right hand side
  std::vector<double> gain;               // reduced gains; last: minus the objective
  std::vector<size_t> basis;

  explicit Tableau(const std::vector<std::vector<double>>& cost) {
    const size_t columns = cost.front().size();
    for (size_t row = 0; row < cost.size(); row++) {
      rows.push_back(cost[row]);
      rows.back().push_back(1);
      basis.push_back(columns + row);
    }
    gain.assign(columns, 1);
    gain.push_back(0);
  }

  /// The slack that leaves takes the column of what enters: the tableau stays as narrow as the problem.
  void pivot(size_t row, size_t column, std::vector<size_t>& names) {
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

}  // namespace

Mix leastMaximum(const std::vector<std::vector<double>>& cost) {
  const size_t columns = cost.front().size();
  Tableau table(cost);
  std::vector<size_t> names(columns);  // which variable stands in each column
  for (size_t j = 0; j < columns; j++) names[j] = j;
  while (true) {
    size_t entering = columns;  // Bland's rule: the first by name, so that it ends
    for (size_t j = 0; j < columns; j++) {
      if (table.gain[j] > kTiny && (entering == columns || names[j] < names[entering])) entering = j;
    }
    if (entering == columns) break;
    size_t leaving = table.rows.size();
    double least = 0;
    for (size_t i = 0; i < table.rows.size(); i++) {
      if (table.rows[i][entering] <= kTiny) continue;
      const double ratio = table.rows[i][columns] / table.rows[i][entering];
      const bool first = leaving == table.rows.size();
      if (first || ratio < least - kTiny || (ratio < least + kTiny && table.basis[i] < table.basis[leaving])) {
        leaving = i;
        least = first ? ratio : (ratio < least ? ratio : least);
      }
    }
    table.pivot(leaving, entering, names);  // bounded, as all costs are positive
  }
  Mix mix;
  mix.value = -1 / table.gain[columns];  // the objective stands there with its sign turned
  mix.shares.assign(columns, 0);
  for (size_t i = 0; i < table.rows.size(); i++) {
    if (table.basis[i] < columns) mix.shares[table.basis[i]] = table.rows[i][columns] * mix.value;
  }
  for (double& share : mix.shares) share = share < 0 ? 0 : share;
  return mix;
}

}  // namespace r2cc::planner
