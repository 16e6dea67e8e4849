// A plan need not use all that is left.
#pragma once

#include <functional>

#include "planner/cost/cluster.h"

namespace r2cc::planner {

/// Calls `visit` with the request as if one NIC had less left: nothing, or as much as the next slower one of any node.
/// One NIC after the other, where several nodes lost a part of their NICs. Of few NICs: of many each
/// counts little.
void withLess(const Request& request, const Cluster& cluster, const std::function<void(const Request&)>& visit);

}  // namespace r2cc::planner
