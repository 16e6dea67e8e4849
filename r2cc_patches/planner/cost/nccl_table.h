// What NCCL would run an AllReduce as, and how long its own table of costs says that this takes: the constants of
// tuning.cc (2.29.7, 2.30.7; of two values the faster), for three nodes and more. Inside NCCL its own table is asked
// instead (nccl/ncclCosts). On balanced paths a way of running takes no less than its busiest node.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/cluster.h"

namespace r2cc::planner {

/// The ways that NCCL's table knows for this machine.
std::vector<Rival> rivalsOf(const NcclMachine& machine, const Cluster& cluster);

/// What rings reach of the NICs' bandwidth, whatever their order: as NCCL's own was measured.
double ringReaches(const Request& request);

enum class Algorithm : uint8_t { Ring, Tree, NvlsTree };
/// A rival of NCCL's own table, with the hops and the bandwidth that were measured. `protocol`: LL, LL128, Simple.
void asMeasured(Rival& rival, Algorithm algorithm, int protocol, const NcclMachine& machine, int nodes, int ranks);

/// What NCCL's tree kernel costs a chain, by the same table.
Cost ncclCost(const NcclMachine& machine);
/// Where a rank's thread moves the bytes itself: what it can, unless the costs say so already.
void throughSockets(Cost& cost);
/// The most that one channel of a tree carries of messages, in GB/s.
double treeChannelGBps(Gpu gpu);

/// From parent to child in NCCL's double tree, in each of whose trees half of a message goes up and down again.
std::vector<std::pair<int, int>> treeEdges(int nodes);
/// What each node of NCCL's double tree sends over its NICs, in messages; it receives as much.
std::vector<double> treeLoads(int nodes);

/// What NCCL would run, and how long that takes while nodes have what they have left.
class Rivals {
 public:
  Rivals(const std::vector<Rival>& rivals, const Cluster& cluster, const std::string& op, const Cost& cost);
  size_t count() const { return rivals_.size(); }
  /// Of what NCCL chooses at this size.
  double chosenUs(double bytes) const;
  double balancedUs(size_t which, double bytes) const;
  /// With every NIC whole; or with all nodes by so much slower.
  double healthyUs(size_t which, double bytes, double slower = 1) const;
  /// Without `beatenFrom`.
  Baseline baseline(size_t which, double bytes) const;
  size_t chosen(double bytes) const;
  /// Of its ring with protocol Simple, on whole NICs, as it was measured; 0: not known.
  double ringUs(double bytes) const;
  /// The same of its hops alone.
  double ringLatencyUs() const;
  const Rival& rival(size_t which) const { return rivals_[which].rival; }
  /// On whole NICs: what NCCL chooses by, and what was measured, where it was.
  static double tableUs(const Rival& rival, double bytes);
  static double takesUs(const Rival& rival, double bytes);

 private:
  struct Known {
    Rival rival;
    double usPerByte = 0;       // of the busiest node or rank, or of what two neighbours can exchange
    double wholeUsPerByte = 0;  // of the busiest node while its NICs are whole
    double rankUsPerByte = 0;   // of the busiest rank's thread
  };
  std::vector<Known> rivals_;
};

}  // namespace r2cc::planner
