// Parts of requests as JSON.
#pragma once

#include "base/json/reader.h"
#include "planner/planner.h"

namespace r2cc::planner {

/// What is not there keeps its default. Throws JsonError; whether values make sense is check()'s to say.
Cost costFrom(const Json& json, Cost cost = {});
/// `channels` 0: as many as a node has NICs, two at least.
NcclMachine machineFrom(const Json& json);

}  // namespace r2cc::planner
