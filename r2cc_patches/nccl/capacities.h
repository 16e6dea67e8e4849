// What every node's NICs can carry, as all ranks of a communicator know it: gathered once at its start, and afterwards
// as the text that the agreement carries. A text is short while little is broken, whatever the number of nodes.
#pragma once

#include <string>
#include <vector>

#include "comm.h"
#include "planner/capacities.h"

namespace r2cc::schedules {

struct Capacities {
  /// What the net knows of this process's NICs. For Agreement::report.
  static std::string localReport();
  /// Collective: every node's NICs, from the view of its first rank, at what its ranks say is left of them.
  static ncclResult_t gather(ncclComm* comm, Capacities& out);

  std::vector<planner::Node> nodes;
  bool failTogether = false;  // somewhere two NICs do (r2ccNicsFailTogether)
  /// By node: NICs (places in its list) of the ring graph's channels.
  std::vector<std::vector<int>> homes;
};

}  // namespace r2cc::schedules
