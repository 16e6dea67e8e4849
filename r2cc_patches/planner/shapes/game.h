// min over shares x (x >= 0, sum 1) of the busiest row of `cost` x: how to spread work over ways of doing it when each
// loads several things. It is the value of a matrix game, found by the simplex method (Dantzig 1951).
#pragma once

#include <vector>

namespace r2cc::planner {

struct Mix {
  std::vector<double> shares;
  double value = 0;
};

/// cost[row][column], finite and not below 0: what the whole of the work done in way `column` costs `row`. Not empty.
Mix leastMaximum(const std::vector<std::vector<double>>& cost);

}  // namespace r2cc::planner
