#include "planner/shapes/pool.h"

#include <algorithm>
#include <set>

namespace r2cc::planner {
namespace {

size_t homesAmong(const Request& request, size_t nics) {
  const std::set<int> homes(request.homes.begin(), request.homes.end());
  return static_cast<size_t>(
      std::count_if(homes.begin(), homes.end(), [&](int home) { return static_cast<size_t>(home) < nics; }));
}

}  // namespace

bool sharesNics(const Request& request) {
  if (request.homes.empty()) return false;
  return std::any_of(request.nodes.begin(), request.nodes.end(),
                     [&](const Node& node) { return homesAmong(request, node.nics.size()) < node.nics.size(); });
}

Request pooled(Request request) {
  for (Node& node : request.nodes) {
    double whole = 0, left = 0;
    for (const Nic& nic : node.nics) whole += nic.rateGbit, left += nic.rateGbit * nic.capacity;
    if (whole <= 0) continue;
    const auto homes = static_cast<double>(std::max<size_t>(1, homesAmong(request, node.nics.size())));
    const double part = std::min(1.0, homes / static_cast<double>(node.nics.size()));
    node.nics = {{"all", whole * part, left / whole}};
  }
  std::fill(request.homes.begin(), request.homes.end(), 0);
  return request;
}

}  // namespace r2cc::planner
