// Whether this library and what else of R2CC runs in the process were made in one build.
#pragma once

#include <string>

namespace r2cc::faults {

std::string ownBuild();

/// Why not, in a line; empty: they were, or nothing else of R2CC is here, or a build says of itself that it was made by
/// hand.
std::string otherBuildHere();

}  // namespace r2cc::faults
