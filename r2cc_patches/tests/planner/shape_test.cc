// Requests as NCCL makes them: cycles of channels with homes, of few NICs of a node or of thousands of nodes.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "budget.h"
#include "check.h"
#include "planner/exact.h"
#include "planner/shapes/cycles.h"
#include "planner/shapes/placing.h"
#include "requests.h"

using namespace r2cc::planner;
using r2cc::check::planNode;

namespace {

Request asNcclAsks(int nodes, int ranksEach, int nics, int count, std::vector<int> homes) {
  Request request;
  for (int i = 0; i < nodes; i++) request.nodes.push_back(planNode(i, ranksEach, nics, 1));
  for (const std::vector<int>& order : cycles(nodes, count)) {
    std::vector<int> ranks;
    for (const int node : order) {
      for (int rank = 0; rank < ranksEach; rank++) ranks.push_back(node * ranksEach + rank);
    }
    request.cycles.push_back(ranks);
  }
  request.homes = std::move(homes);
  request.bytes = uint64_t{16} << 30;
  request.channels = count + 1;
  request.cost.evenRails = false;
  return request;
}

/// The most memory that a process takes which makes this plan, in MiB; -1: it failed.
long mibToPlan(const Request& request) {
  const pid_t child = fork();
  if (child == 0) _exit(plan(request).parts.empty() ? 1 : 0);
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) return -1;
  return used.ru_maxrss / 1024;
}

}  // namespace

TEST(plan_of_one_rank_a_node_at_home_on_one_nic_of_eight_pays) {
  // TP 8 x DP 16: eight communicators like this one share a node's NICs, whichever of them is lost.
  for (const int lost : {0, 5}) {
    Request request = asNcclAsks(16, 1, 8, 15, {0});
    request.nodes[3].nics[static_cast<size_t>(lost)].capacity = 0;
    request.cost.ringEfficiency = request.cost.chainEfficiency = 1;
    const Plan found = plan(request);
    CHECK(found.schedule == Schedule::Chain);
    CHECK(found.predictedUs <= found.healthyUs * 1.04);
    CHECK(found.candidates.front().predictedUs.value_or(0) >= found.healthyUs * 1.14);
    CHECK(std::abs(found.nodes[0].rateGbit - 1) < 1e-9);  // its part of eight NICs
  }
}

TEST(plan_counts_ring_and_chains_on_the_same_nics) {
  // With a home on each NIC nothing is pooled: the plan is as for a node that has no more.
  Request all = asNcclAsks(4, 1, 2, 3, {0, 1});
  all.nodes[1].nics[0].capacity = 0;
  CHECK(plan(all).schedule == Schedule::Chain);
  CHECK(std::abs(plan(all).nodes[0].rateGbit - 2) < 1e-9);
  Request one = asNcclAsks(4, 1, 2, 3, {1});
  one.nodes[1].nics[0].capacity = 0;
  CHECK(std::abs(plan(one).predictedUs / plan(all).predictedUs - 2) < 0.02);  // half of the NICs, twice the time
}

/// Connections may go in turn or be split. More lines in turn on NICs as busy have more hops: 8 nodes of 4 NICs, of
/// which two neighbours lost one each, were planned up to 1.18 times as slow so.
TEST(plan_goes_in_turn_only_where_that_is_no_slower) {
  struct Case {
    int nodes, nics, nicOfNode1, nicOfNode2;
    double left;
  };
  for (const Case& c : {Case{8, 4, 0, 3, 0}, Case{8, 4, 0, 1, 0}, Case{4, 4, 0, 3, 0}, Case{4, 3, 0, -1, 0},
                        Case{4, 4, 0, -1, 0.5}, Case{4, 8, 0, -1, 0.25}}) {
    std::vector<int> homes;
    for (int nic = 0; nic < c.nics; nic++) homes.push_back(nic);
    Request request = asNcclAsks(c.nodes, 1, c.nics, 3, homes);
    request.schedule = Schedule::Chain;
    request.cost.hopUs = 14;
    for (Node& node : request.nodes) {
      for (Nic& nic : node.nics) nic.rateGbit = 400;
    }
    request.nodes[1].nics[static_cast<size_t>(c.nicOfNode1)].capacity = c.left;
    if (c.nicOfNode2 >= 0) request.nodes[2].nics[static_cast<size_t>(c.nicOfNode2)].capacity = c.left;
    for (const uint64_t bytes : {uint64_t{4} << 20, uint64_t{64} << 20, uint64_t{256} << 20, uint64_t{4} << 30}) {
      request.bytes = bytes;
      request.inTurn = true;
      const Plan may = plan(request);
      request.inTurn = false;
      const Plan mayNot = plan(request);
      CHECK(may.predictedUs <= mayNot.predictedUs * (1 + 1e-9));
      if (c.left > 0) CHECK_EQ(exactText(may), exactText(mayNot));  // nothing was lost that could take turns
    }
  }
}

TEST(plan_of_two_thousand_nodes_needs_little_memory) {
  Request request = asNcclAsks(2048, 8, 8, 3, {0, 1, 2, 3, 4, 5, 6, 7});
  for (size_t i = 0; i < 50; i++) request.nodes[i * 37].nics[i % 8].capacity = 0;
  const long mib = mibToPlan(request);
  CHECK(mib >= 0);
  if (!r2cc::check::sanitized()) CHECK(mib < 100);
}

TEST(plan_says_exactly_from_which_size_it_beats_each_way_of_nccl) {
  // What ranks compare before they switch: the same parts, but another table on one of them. All would take the ring.
  Request request = asNcclAsks(4, 1, 2, 3, {0, 1});
  request.nodes[1].nics[0].capacity = 0;
  const std::vector<double> fast(kLargestPower + 1, 1), slow(kLargestPower + 1, 2);
  request.rivals = {{"ring/simple", Flow::Ring, 1, 100, fast}, {"tree/ll", Flow::Tree, 2, 20, slow}};
  const Plan one = plan(request);
  request.rivals[1].wire = 0.5;
  const Plan other = plan(request);
  CHECK_EQ(one.parts.size(), other.parts.size());
  CHECK(one.baselines[1].beatenFrom.has_value() && !other.baselines[1].beatenFrom.has_value());
  CHECK(exactText(one) != exactText(other));
  CHECK(r2cc::check::says(exactText(one), "before tree/ll from "));
}

TEST(plan_takes_what_nccl_would_where_that_is_faster) {
  Request request = asNcclAsks(4, 1, 2, 3, {0, 1});
  request.nodes[1].nics[0].capacity = 0;
  CHECK(plan(request).schedule == Schedule::Chain);
  request.rivals = {{"tree/simple", Flow::Direct, 1, 1, {}}};  // each node's bytes once: nothing is faster
  const Plan found = plan(request);
  CHECK(found.schedule == Schedule::Ring && !found.thresholdBytes);
  CHECK(r2cc::check::says(found.why, "NCCL's tree/simple on balanced paths"));
}
