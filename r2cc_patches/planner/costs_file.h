// A file of costs, as `r2cc plan calibrate` writes them.
#pragma once

#include <string>

#include "planner/planner.h"

namespace r2cc::planner {

struct CostsFile {
  Costs costs;
  std::string text;  // all of it, to compare it between ranks
};

/// Throws PlanError, in one line that says what to do: it is none, cannot be read, or has a value that cannot be.
CostsFile readCostsFile(const std::string& path);

}  // namespace r2cc::planner
