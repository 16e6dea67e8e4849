// Several degraded nodes: who stands next to whom, whose ends a chain has.
#include <algorithm>
#include <cmath>

#include "../planner/cluster.h"
#include "../planner/order.h"
#include "check.h"
#include "plan_requests.h"

using namespace r2cc::planner;
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
