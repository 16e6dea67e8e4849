// How long a channel keeps NICs busy. A channel has a home NIC. Between two nodes that both have it, its messages go
// over that NIC's rail; where one of them lost it, over the rails that both still have.
#pragma once

#include <cstddef>
#include <vector>

#include "planner.h"

namespace r2cc::planner {

class Rails {
 public:
  /// By direction, node and rail: how long that NIC is busy, in us a byte of the message.
  using Loads = std::vector<double>;

  explicit Rails(const std::vector<Node>& nodes);
  Loads none() const { return Loads(2 * nodes_.size() * count_, 0); }
  /// Adds what `load` from a to b makes of NICs, for a channel at home on this rail.
  void add(Loads& loads, size_t home, int a, int b, double load) const;

 private:
  const Nic* nic(int node, size_t rail) const;
  double rate(int node, size_t rail) const;
  double built(int node, size_t rail) const;
  std::vector<double> spread(size_t home, int a, int b) const;

  const std::vector<Node>& nodes_;
  size_t count_ = 0;
};

}  // namespace r2cc::planner
