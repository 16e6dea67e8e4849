// A request's nodes as the planner computes with them: bandwidths, rails, and which of them get along.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/planner.h"

namespace r2cc::planner {

/// Bandwidths are in bytes a microsecond, one way. Nodes are indices into the request's. What no other node can take up
/// counts for nothing: a NIC that is alone on its rail, say. A node that shares no lane with any is taken to have
/// another way, as wide as its slowest NIC.
class Cluster {
 public:
  /// The request must be valid.
  explicit Cluster(const Request& request);

  int nodes() const { return static_cast<int>(request_.nodes.size()); }
  int ranks() const { return ranks_; }
  const std::vector<int>& ranksOf(int node) const { return request_.nodes[static_cast<size_t>(node)].ranks; }
  const std::vector<double>& bandwidths() const { return bandwidth_; }
  double bandwidth(int node) const { return bandwidth_[static_cast<size_t>(node)]; }
  double fastest() const { return fastest_; }
  double slowest() const { return slowest_; }
  double total() const { return total_; }
  /// What is left of a node's NICs, whoever reaches them.
  double left(int node) const { return left_[static_cast<size_t>(node)]; }
  double mostLeft() const { return *std::max_element(left_.begin(), left_.end()); }
  /// The slowest node's bandwidth with every NIC whole.
  double healthySlowest() const { return healthySlowest_; }
  /// Nodes slower than the fastest, slowest first; of equals the first in the request.
  const std::vector<int>& degraded() const { return degraded_; }
  bool oneRankEach() const { return ranks_ == nodes(); }

  /// What is left of a node's NICs, by rail or plane, as far as others reach it.
  const std::vector<double>& lanes(int node) const { return lanes_[class_[static_cast<size_t>(node)]]; }
  /// Of what a sends to b, each rail's share is what both have left of it. False where that is just how all of a's and
  /// all of b's NICs are used anyway: then the rails need no look.
  bool uneven(int a, int b) const;
  /// All have as much left as the others, and reach them with all of it: none lost other rails than another.
  bool alike() const;
  /// Some of its NICs lost more than others: whoever talks to it must use the others more.
  bool picky(int node) const;
  int pickyNodes() const;

  /// What two neighbours can exchange over the rails that both still have. 0: none in common.
  double between(int a, int b) const;
  /// The same; of those with none in common, what the other way that they are taken to have carries: as much as the
  /// slowest NIC of either. So the first rail that they share is never less.
  double exchange(int a, int b) const;
  /// Neither is held back by the other having lost other rails.
  bool getAlong(int a, int b) const;
  /// Every rank of these nodes, node by node.
  std::vector<int> ranksOf(const std::vector<int>& order) const;

 private:
  double shared(int a, int b) const;
  const Request& request_;
  int ranks_ = 0;
  std::vector<double> bandwidth_, left_;
  std::vector<double> slowestNic_;  // of those that work
  double fastest_ = 0, slowest_ = 0, total_ = 0, healthySlowest_ = 0;
  std::vector<int> degraded_;
  std::vector<size_t> class_;               // nodes whose NICs are alike are of one class
  std::vector<std::vector<double>> lanes_;  // of each
  mutable std::vector<double> between_;     // of two classes; below 0: not computed yet; empty: too many
};

}  // namespace r2cc::planner
