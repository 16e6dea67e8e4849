// What can be wrong with a request.
#pragma once

#include "planner/planner.h"

namespace r2cc::planner {

/// Throws PlanError with every problem found.
void check(const Request& request);
void check(const Costs& costs);

}  // namespace r2cc::planner
