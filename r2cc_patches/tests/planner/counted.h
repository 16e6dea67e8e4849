// The load of a plan whose parts lie on channels with homes, counted once more beside the planner, NIC by NIC.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/planner.h"

namespace r2cc::check {

inline double ringLoadOf(const planner::Request& request) {
  const auto nodes = static_cast<double>(request.nodes.size());
  return (request.op == "allreduce" ? 2 : 1) * (nodes - 1) / nodes;
}

/// What the NICs of a cluster send and receive, of the message: [direction][node][NIC].
class Counted {
 public:
  explicit Counted(const planner::Request& request) : request_(request), nics_(request.homes.size()) {
    bytes_.assign(2 * request.nodes.size() * nics_, 0);
  }

  /// Over its home where both ends have that, else over the rails that both have: over one, by its turn, or evenly over
  /// all (`turn` below 0). False: there is none.
  bool send(int from, int to, size_t home, int turn, double load) {
    std::vector<size_t> rails;
    for (size_t rail = 0; rail < nics_; rail++) {
      if (has(from, rail) && has(to, rail)) rails.push_back(rail);
    }
    if (std::find(rails.begin(), rails.end(), home) != rails.end()) rails = {home};
    if (turn >= 0 && !rails.empty()) rails = {rails[static_cast<size_t>(turn) % rails.size()]};
    for (const size_t rail : rails) {
      bytes_[static_cast<size_t>(from) * nics_ + rail] += load / static_cast<double>(rails.size());
      bytes_[(request_.nodes.size() + static_cast<size_t>(to)) * nics_ + rail] +=
          load / static_cast<double>(rails.size());
    }
    return !rails.empty();
  }

  /// The busiest NIC's time over that of a ring on whole NICs.
  double most() const {
    return *std::max_element(bytes_.begin(), bytes_.end()) * static_cast<double>(nics_) / ringLoadOf(request_);
  }

 private:
  bool has(int node, size_t rail) const { return request_.nodes[static_cast<size_t>(node)].nics[rail].capacity > 0; }
  const planner::Request& request_;
  const size_t nics_;
  std::vector<double> bytes_;
};

/// Of a plan whose parts lie on cycles. Below 0: somewhere two neighbours have no rail in common.
inline double counted(const planner::Request& request, const planner::Plan& plan) {
  Counted nics(request);
  bool reached = true;
  for (const planner::Part& part : plan.parts) {
    const bool ring = part.kind == planner::Kind::Ring;
    const int turn = plan.inTurn ? part.cycle : -1;  // no home has two of a cycle's channels in these tests
    const double load = part.share / static_cast<double>(part.homes.size()) * (ring ? ringLoadOf(request) : 1);
    for (const int home : part.homes) {
      for (size_t i = 0; i + (ring ? 0 : 1) < part.order.size(); i++) {
        const int a = part.order[i], b = part.order[(i + 1) % part.order.size()];
        reached &= nics.send(a, b, static_cast<size_t>(home), turn, load);
        if (!ring) reached &= nics.send(b, a, static_cast<size_t>(home), turn, load);
      }
    }
  }
  return reached ? nics.most() : -1;
}

}  // namespace r2cc::check
