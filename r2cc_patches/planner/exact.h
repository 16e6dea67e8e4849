// A plan as it must be on every rank, bit by bit: what ranks compare before they run it.
#pragma once

#include <string>

#include "planner/planner.h"

namespace r2cc::planner {

/// What a plan makes a rank do. Not what it predicts, and no reasons.
std::string exactText(const Plan& plan);

}  // namespace r2cc::planner
