#include "planner/shapes/less.h"

#include <algorithm>
#include <set>

namespace r2cc::planner {
namespace {

constexpr size_t kMostVaried = 64;  // NICs: twice as many take four times as long, and each counts half as much
constexpr size_t kMostSlower = 3;

/// Nothing, and what slower NICs have left: the next ones, as each takes another search.
std::set<double> lessThan(const Request& request, double capacity) {
  if (capacity <= 0) return {};
  std::set<double> slower;
  for (const Node& node : request.nodes) {
    for (const Nic& nic : node.nics) {
      if (nic.capacity > 0 && nic.capacity < capacity) slower.insert(nic.capacity);
    }
  }
  while (slower.size() > kMostSlower) slower.erase(slower.begin());
  slower.insert(0);
  return slower;
}

bool works(const Node& node) {
  return std::any_of(node.nics.begin(), node.nics.end(),
                     [](const Nic& nic) { return nic.capacity > 0 && nic.rateGbit > 0; });
}

size_t nicsOf(const Request& request) {
  size_t count = 0;
  for (const Node& node : request.nodes) count += node.nics.size();
  return count;
}

}  // namespace

void withLess(const Request& request, const Cluster& cluster, const std::function<void(const Request&)>& visit) {
  if (nicsOf(request) > kMostVaried || cluster.pickyNodes() < 2) return;
  Request less = request;
  for (Node& node : less.nodes) {
    for (Nic& nic : node.nics) {
      const double before = nic.capacity;
      for (const double capacity : lessThan(request, before)) {
        nic.capacity = capacity;
        if (works(node)) visit(less);
      }
      nic.capacity = before;
    }
  }
}

}  // namespace r2cc::planner
