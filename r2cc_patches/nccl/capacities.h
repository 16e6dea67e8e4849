// What every node's NICs can carry, as all ranks of a communicator know it: gathered once at its start, and afterwards
// as the text that the agreement carries. A text is short while little is broken, whatever the number of nodes.
#pragma once

#include <string>
#include <vector>

#include "comm.h"
#include "planner/capacities.h"

namespace r2cc::schedules {

class Capacities {
 public:
  /// What the net knows of this process's NICs. For Agreement::report.
  static std::string localReport();
  /// Collective: every node's NICs, from the view of its first rank, at what its ranks say is left of them.
  static ncclResult_t gather(ncclComm* comm, Capacities& out);

  const std::vector<planner::Node>& nodes() const { return nodes_; }
  /// By node: NICs (places in its list) of the ring graph's channels.
  const std::vector<std::vector<int>>& homes() const { return homes_; }
  /// The same nodes with what the ranks say now; a rank that said nothing changes nothing.
  Capacities with(const std::vector<std::string>& reports) const;
  std::string text() const { return planner::capacitiesText(nodes_); }
  /// The same nodes at what `text` says. False if it is no such text.
  bool apply(const std::string& text);

 private:
  std::vector<planner::Node> nodes_;
  std::vector<std::vector<int>> homes_;
};

}  // namespace r2cc::schedules
