// Several degraded nodes: who stands next to whom, whose ends a chain has.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "planner/cost/cluster.h"
#include "planner/shapes/order.h"
#include "requests.h"

using namespace r2cc::planner;
using r2cc::check::bare;
using r2cc::check::planNode;

namespace {

/// Nodes of `nics` rails; lost[i] is the rail that node i lost, or -1.
Request withLost(const std::vector<int>& lost, int nics) {
  Request request;
  for (size_t i = 0; i < lost.size(); i++) {
    Node node = planNode(static_cast<int>(i), 1, nics, 1);
    if (lost[i] >= 0) node.nics[static_cast<size_t>(lost[i])].capacity = 0;
    request.nodes.push_back(node);
  }
  request.bytes = 256 << 20;
  return request;
}

bool isPermutation(std::vector<int> order) {
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); i++) {
    if (order[i] != static_cast<int>(i)) return false;
  }
  return true;
}

/// Pairs of neighbours that hold each other back.
int quarrels(const Cluster& cluster, const std::vector<int>& order, bool ring) {
  int count = 0;
  for (size_t i = 0; i + (ring ? 0 : 1) < order.size(); i++) {
    count += cluster.getAlong(order[i], order[(i + 1) % order.size()]) ? 0 : 1;
  }
  return count;
}

}  // namespace

TEST(plan_ring_of_healthy_nodes_keeps_their_order) {
  const Request request = withLost({-1, -1, 0, -1, -1}, 2);
  CHECK(ringOrder(Cluster(request)) == (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(plan_bridges_nodes_that_share_no_rail) {
  const Request request = withLost({0, 1, -1, -1}, 2);
  const Cluster cluster(request);
  const std::vector<int> order = ringOrder(cluster);
  CHECK(isPermutation(order));
  CHECK_EQ(cluster.between(0, 1), 0.0);
  CHECK_EQ(strangers(cluster, order, true), 0);
  CHECK_EQ(quarrels(cluster, order, true), 0);
}

TEST(plan_puts_others_between_nodes_that_lost_different_rails) {
  const Request request = withLost({0, 1, 2, -1, -1, -1, -1, 0}, 4);
  const Cluster cluster(request);
  const std::vector<int> order = ringOrder(cluster);
  CHECK(isPermutation(order));
  CHECK_EQ(quarrels(cluster, order, true), 0);
  for (int head = 0; head < 8; head++) {
    for (int tail = 0; tail < 8; tail++) {
      if (head == tail) continue;
      const std::vector<int> chain = Seating(cluster, order).chain(head, tail, 1);
      CHECK(isPermutation(chain) && chain.front() == head && chain.back() == tail);
      CHECK_EQ(strangers(cluster, chain, false), 0);
    }
  }
}

TEST(plan_says_when_there_is_no_bridge) {
  Request request = withLost({0, 1}, 2);
  const Plan plan = r2cc::planner::plan(request);
  CHECK(plan.why.find("share no rail") != std::string::npos);
  CHECK(std::isfinite(plan.predictedUs));
}

TEST(plan_of_two_degraded_nodes_makes_them_the_ends) {
  Request request = withLost({-1, 0, -1, 0, -1, -1, -1, -1}, 2);
  request.schedule = Schedule::ChainFixed;
  request.channels = 1;
  const Plan two = plan(request);
  CHECK_EQ(two.parts.size(), size_t{1});
  CHECK_EQ(two.parts[0].order.front() + two.parts[0].order.back(), 4);  // nodes 1 and 3
  request.nodes[3] = planNode(3, 1, 2, 1);
  CHECK(std::abs(two.predictedUs / plan(request).predictedUs - 1) < 0.01);  // as fast as with one of them
}

namespace {

/// One NIC a node, with so much left of it.
Request withLeft(const std::vector<double>& left) {
  Request request;
  for (size_t i = 0; i < left.size(); i++) request.nodes.push_back(planNode(static_cast<int>(i), 1, 1, left[i]));
  request.bytes = 256 << 20;
  request.schedule = Schedule::Published;
  bare(request.cost);
  return request;
}

}  // namespace

TEST(plan_splits_recursively) {
  const Request request = withLeft({1, 0.5, 1, 0.25});
  const Plan plan = r2cc::planner::plan(request);
  // A ring of all on 1/4, one of three on 1/4, one of two on 1/2: as the bandwidths that each has for itself.
  CHECK_EQ(plan.parts.size(), size_t{2});
  CHECK(plan.parts[0].share == 0.5 && plan.parts[0].y == 0.5 && plan.parts[0].straggler == 3);
  CHECK(plan.parts[0].spared.empty());  // the straggler alone
  CHECK(plan.parts[1].share == 0.5 && plan.parts[1].y == 1);
  CHECK(plan.parts[1].spared == (std::vector<std::vector<int>>{{3}, {1}}));
  const double d = static_cast<double>(request.bytes);
  const double k = plan.parts[0].pieces;
  // Node 3 has the first ring all the time, and then takes and gives three quarters of the message.
  CHECK(std::abs(plan.predictedUs / (d / 125) - (1.5 + (1 + 1 / k) * 0.75 / 0.25)) < 1e-9);
  CHECK(std::abs(plan.nodes[3].txBytes / d - (1.5 * 0.25 + 0.75)) < 1e-9);
  CHECK(std::abs(plan.nodes[1].txBytes / d - (1.5 * 0.25 + 4.0 / 3 * 0.25 + 0.75)) < 1e-9);
  CHECK(std::abs(plan.nodes[0].txBytes - plan.nodes[2].txBytes) < 1);
}

TEST(plan_spares_equal_nodes_together_and_needs_two_faster_ones) {
  const Plan two = plan(withLeft({1, 0.5, 0.5, 1, 1}));
  CHECK_EQ(two.parts.size(), size_t{1});
  CHECK(two.parts[0].spared == (std::vector<std::vector<int>>{{1}, {2}}) && two.parts[0].y == 0.5);
  CHECK_EQ(two.nodes[1].txBytes, two.nodes[2].txBytes);
  CHECK_EQ(two.nodes[0].rxBytes, two.nodes[4].rxBytes);
  CHECK(plan(withLeft({0.5, 0.5, 1})).parts[0].kind == Kind::Ring);
  Request few = withLeft({1, 0.5, 1, 0.25, 0.75, 1});
  CHECK_EQ(plan(few).parts.size(), size_t{3});
  few.channels = 2;
  CHECK_EQ(plan(few).parts.size(), size_t{2});
  few.nodes[3].ranks = {3, 6};
  CHECK(plan(few).parts[0].spared == (std::vector<std::vector<int>>{{3, 6}}));
}

TEST(plan_bridges_in_partial_rings) {
  // Without node 1, the slowest, 0 and 2 would be neighbours that share no rail.
  Request request = withLost({0, -1, 1, -1, -1, -1}, 2);
  for (Nic& nic : request.nodes[1].nics) nic.capacity = 0.25;
  request.schedule = Schedule::Published;
  const Cluster cluster(request);
  const Plan plan = r2cc::planner::plan(request);
  for (const Part& part : plan.parts) {
    if (part.kind != Kind::Published) continue;
    std::vector<int> gone{part.straggler};
    for (const auto& node : part.spared) gone.push_back(node.front());
    CHECK_EQ(strangers(cluster, without(part.order, gone), true), 0);
    CHECK(isPermutation(part.order));
  }
}

TEST(plan_of_a_thousand_nodes) {
  Request request;
  for (int i = 0; i < 1024; i++) request.nodes.push_back(planNode(i, 8, 8, 1));
  for (int i = 0; i < 20; i++) request.nodes[static_cast<size_t>(i) * 37].nics[static_cast<size_t>(i % 8)].capacity = 0;
  request.bytes = uint64_t{1} << 30;
  request.channels = 32;
  const Plan plan = r2cc::planner::plan(request);
  CHECK(plan.parts.size() <= 32);
  for (const Part& part : plan.parts) CHECK(isPermutation(part.order));
  CHECK(plan.predictedUs >= plan.boundUs);
}
