#include "planner/words.h"

#include <cstdio>

namespace r2cc::planner {

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof(text), "%.3g %%", share * 100);
  return text;
}

std::string times(double ratio) {
  char text[16];
  std::snprintf(text, sizeof(text), "%.3f x", ratio);
  return text;
}

std::string whoIsSlow(const Request& request, const Cluster& cluster) {
  int slowest = 0, slow = 0;
  for (int node = 0; node < cluster.nodes(); node++) {
    slow += cluster.left(node) < cluster.mostLeft() * (1 - 1e-9) ? 1 : 0;
    if (cluster.left(node) < cluster.left(slowest)) slowest = node;
  }
  if (slow == 0) return cluster.alike() ? "no node is slower than the others" : "nodes have different NICs left";
  const std::string left = percent(cluster.left(slowest) / cluster.mostLeft());
  const std::string& name = request.nodes[static_cast<size_t>(slowest)].name;
  if (slow == 1) return "node " + name + " has " + left + " of the others' bandwidth";
  return std::to_string(slow) + " nodes are slower, the slowest, " + name + ", at " + left;
}

}  // namespace r2cc::planner
