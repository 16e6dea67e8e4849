// R2CC_ASSUME_DOWN=host:nic,...: NICs that every rank treats as failed from the start, so that a cluster where nothing
// may be broken can measure what happens when something is.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace r2cc {

/// The NICs named for a host that is called any of `hosts`. Throws std::invalid_argument that says what is wrong where.
inline std::vector<std::string> assumedDown(const std::string& text, const std::vector<std::string>& hosts) {
  std::vector<std::string> nics;
  if (text.empty()) return nics;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, end - at);
    const size_t colon = entry.rfind(':');  // a name that NCCL_HOSTID gives may hold one
    if (colon == std::string::npos || colon == 0 || colon + 1 == entry.size() ||
        entry.find_first_of(" \t") != std::string::npos) {
      throw std::invalid_argument("R2CC_ASSUME_DOWN takes host:nic,host:nic,... and '" + entry + "' is none of that");
    }
    if (std::find(hosts.begin(), hosts.end(), entry.substr(0, colon)) != hosts.end()) {
      nics.push_back(entry.substr(colon + 1));
    }
    at = end + 1;
  }
  return nics;
}

}  // namespace r2cc
