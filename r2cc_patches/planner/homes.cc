#include "homes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "formulas.h"
#include "game.h"

namespace r2cc::planner {
namespace {

class Rails {
 public:
  explicit Rails(const std::vector<Node>& nodes) : nodes_(nodes) {
    for (const Node& node : nodes) count_ = std::max(count_, node.nics.size());
  }
  size_t count() const { return count_; }

  double rate(int node, size_t rail) const {
    const std::vector<Nic>& nics = nodes_[static_cast<size_t>(node)].nics;
    return rail < nics.size() ? nics[rail].rateGbit * nics[rail].capacity : 0;
  }

  /// Which part of a channel's messages from a to b goes over each rail.
  std::vector<double> over(size_t home, int a, int b) const {
    std::vector<double> shared(count_), out(count_, 0);
    for (size_t rail = 0; rail < count_; rail++) shared[rail] = std::min(rate(a, rail), rate(b, rail));
    const double whole = std::min(built(a, home), built(b, home));
    const double kept = whole > 0 ? std::min(1.0, shared[home] / whole) : 0;
    const double others = std::accumulate(shared.begin(), shared.end(), 0.0) - shared[home];
    if (others <= 0) return out[home] = 1, out;
    for (size_t rail = 0; rail < count_; rail++) {
      out[rail] = rail == home ? kept : (1 - kept) * shared[rail] / others;
    }
    return out;
  }

 private:
  double built(int node, size_t rail) const {
    const std::vector<Nic>& nics = nodes_[static_cast<size_t>(node)].nics;
    return rail < nics.size() ? nics[rail].rateGbit : 0;
  }
  const std::vector<Node>& nodes_;
  size_t count_ = 0;
};

/// From node to node, in parts of the message.
std::map<std::pair<int, int>, double> edges(const std::vector<PlacedPart>& parts, int ranks) {
  std::map<std::pair<int, int>, double> out;
  for (const PlacedPart& part : parts) {
    const size_t count = part.nodes.size();
    for (size_t i = 0; i + (part.ring ? 0 : 1) < count; i++) {
      const int a = part.nodes[i], b = part.nodes[(i + 1) % count];
      out[{a, b}] += part.share * (part.ring ? ringLoad(ranks) : 1);
      if (!part.ring) out[{b, a}] += part.share;
    }
  }
  return out;
}

}  // namespace

std::vector<double> homeShares(const std::vector<Node>& nodes, const std::vector<PlacedPart>& parts, int ranks,
                               const std::vector<int>& homes) {
  const Rails rails(nodes);
  // out and in of each NIC, if all of the message were on one channel
  std::vector<std::vector<double>> cost(2 * nodes.size() * rails.count(), std::vector<double>(homes.size(), 0));
  for (const auto& [edge, load] : edges(parts, ranks)) {
    for (size_t which = 0; which < homes.size(); which++) {
      const std::vector<double> over = rails.over(static_cast<size_t>(homes[which]), edge.first, edge.second);
      for (size_t rail = 0; rail < rails.count(); rail++) {
        const size_t from = static_cast<size_t>(edge.first) * rails.count() + rail;
        const size_t to = (nodes.size() + static_cast<size_t>(edge.second)) * rails.count() + rail;
        cost[from][which] += load * over[rail];
        cost[to][which] += load * over[rail];
      }
    }
  }
  std::vector<std::vector<double>> busy;
  for (size_t row = 0; row < cost.size(); row++) {
    const auto node = static_cast<int>(row / rails.count() % nodes.size());
    const double rate = rails.rate(node, row % rails.count());
    if (rate <= 0 || std::all_of(cost[row].begin(), cost[row].end(), [](double c) { return c == 0; })) continue;
    for (double& c : cost[row]) c /= rate;
    busy.push_back(cost[row]);
  }
  if (busy.empty()) return std::vector<double>(homes.size(), 1 / static_cast<double>(homes.size()));
  return leastMaximum(busy).shares;
}

}  // namespace r2cc::planner
