// Which NIC each connection of a plan is at home on. A rail joins the NICs of the same number, so that a host with
// fewer NICs loads those of its neighbours unevenly: whatever else they send has to go over their others.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/programs/layout.h"

namespace r2cc::bench {

// What one rank says of its host.
struct RankNics {
  std::string host;
  std::vector<double> capacities;  // by NIC, 0 to 1
  std::vector<std::string> names;  // the same
  std::vector<double> rates = {};  // the same, in Gbit/s, 0: unknown  NOLINT(readability-redundant-member-init)
};

// NICs of one name are a rail. A host's net leaves out a NIC that was down when it started: afterwards every rank has
// all of them, in the order of their names, and what it lacks carries nothing. Returns the names.
std::vector<std::string> align(std::vector<RankNics>& ranks);

// What a rank can say of the NICs of these names at an iteration: nothing of those that it has not, and of some what
// --pretend wants.
std::vector<double> capacitiesAt(const RankNics& nics, const std::vector<std::string>& names, const Options& options,
                                 int64_t iteration);

// Bytes through one NIC in an iteration, as placed.
struct NicLoad {
  double tx = 0;
  double rx = 0;
};

using NamedLoads = std::vector<std::pair<std::string, NicLoad>>;

// Gives every edge a NIC so that the busiest one has as little to do as can be found. `balances`: a connection at home
// on a NIC that is gone is spread over the others (R2CC_MODE 2), which is one more choice.
// Returns the loads, by rank and NIC; ranks of one host share theirs.
std::vector<std::vector<NicLoad>> placeNics(std::vector<FlowPlan>& flows, const std::vector<RankNics>& ranks,
                                            bool balances);

// How ranks tell each other; reading throws TransportError.
std::string textOf(const RankNics& nics);
RankNics nicsFrom(const std::string& text);
std::string textOf(const std::vector<FlowPlan>& flows, const std::vector<std::vector<NicLoad>>& loads);
// Gives the flows their NICs; returns what this rank's carry.
std::vector<NicLoad> takePlacement(const std::string& text, std::vector<FlowPlan>& flows, int rank);

}  // namespace r2cc::bench
