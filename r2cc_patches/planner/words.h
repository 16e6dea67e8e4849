// How the planner says why.
#pragma once

#include <string>

#include "planner/cost/cluster.h"

namespace r2cc::planner {

std::string percent(double share);
/// "1.333 x"
std::string times(double ratio);
/// By what NICs have left, whoever reaches them: that is what a user sees.
std::string whoIsSlow(const Request& request, const Cluster& cluster);

}  // namespace r2cc::planner
