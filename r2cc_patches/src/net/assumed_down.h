// R2CC_ASSUME_DOWN=host:nic,...: NICs that every rank treats as failed from the start, so that a cluster where nothing
// may be broken can measure what happens when something is.
#pragma once

#include <string>
#include <vector>

namespace r2cc {

/// The NICs named for a host that is called any of `hosts`. Throws std::invalid_argument that says what is wrong where.
std::vector<std::string> assumedDown(const std::string& text, const std::vector<std::string>& hosts);

}  // namespace r2cc
