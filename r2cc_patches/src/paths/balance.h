// How much of a connection goes over which path: pure arithmetic, no state. Everything is relative: a healthy NIC has
// capacity 1, and what NCCL put on it before anything broke is its demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace r2cc {

/// One path that a connection could use.
struct Candidate {
  double capacity = 1.0;  // of a healthy NIC; 0: not usable now
  double demand = 1.0;    // connections at home there, in the unit of capacity
  int distance = 0;       // class of its NIC's distance from the home NIC; nearer ones are used first
};

/// The share of each candidate (they add up to 1) for a connection at home on candidates[home], so that all paths would
/// finish together: the home path keeps what it can carry, the rest goes to the nearest others by their spare capacity.
/// Shares under 3 % stay at home. All zero when nothing is usable. (Design page 10, Plan / balance.)
std::vector<double> shares(const std::vector<Candidate>& candidates, size_t home);

/// What a slow path is given to carry. A message on it takes longer by as much as it is slower, and the ones behind it
/// wait: filled to the brim it is what every collective ends with. Its siblings carry the difference: of four NICs, 2 %
/// each at most.
double cautious(double capacity);

/// Small integers in nearly the same proportions, so that none has much more than its share, least of all the first,
/// which is home's; every share above zero keeps at least 1. Their sum is at most kPeriod.
constexpr int kPeriod = 48;
std::vector<uint8_t> weights(const std::vector<double>& shares);

/// The order in which lanes take turns: smooth weighted round robin, so that each lane's turns are spread evenly.
/// Entries are indices into `weights`; the length is the sum of the weights. Equal at both ends for equal weights.
std::vector<uint8_t> interleave(const std::vector<uint8_t>& weights);

}  // namespace r2cc
