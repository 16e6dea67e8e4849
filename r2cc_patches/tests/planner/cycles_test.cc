// Chains as cuts of cycles that were connected before anybody knew which node would be slow.
#include <algorithm>
#include <cmath>
#include <set>

#include "check.h"
#include "counted.h"
#include "planner/exact.h"
#include "planner/shapes/cycles.h"
#include "requests.h"

using namespace r2cc::planner;

namespace {

/// Page 20's bound for one node that lost x, in units of message / bandwidth.
double boundOfOneSlow(int nodes, double x) { return std::max(1 / (1 - x), 2.0 * (nodes - 1) / (nodes - x)); }

std::vector<double> bandwidthsWithOneSlow(int nodes, int which, double x) {
  std::vector<double> bandwidths(static_cast<size_t>(nodes), 1);
  bandwidths[static_cast<size_t>(which)] = 1 - x;
  return bandwidths;
}

double loadInRing(int nodes) { return 2.0 * (nodes - 1) / nodes; }

/// What the busiest node takes, counted from the cuts themselves.
double timeOf(const Cuts& found, const std::vector<std::vector<int>>& all, const std::vector<double>& bandwidths) {
  double worst = 0;
  for (size_t node = 0; node < bandwidths.size(); node++) {
    double load = found.ringShare * loadInRing(static_cast<int>(bandwidths.size()));
    for (const Cut& cut : found.cuts) {
      const std::vector<int>& cycle = all[cut.cycle];
      const int tail = cycle[(cut.head + cycle.size() - 1) % cycle.size()];
      const bool end = cycle[cut.head] == static_cast<int>(node) || tail == static_cast<int>(node);
      load += cut.share * (end ? 1 : 2);
    }
    worst = std::max(worst, load / bandwidths[node]);
  }
  return worst;
}

}  // namespace

TEST(plan_cycles_are_orders_of_all_nodes_with_many_neighbours) {
  for (const int nodes : {3, 4, 5, 8, 17, 64}) {
    const auto all = cycles(nodes, nodes - 1);
    CHECK_EQ(all.size(), static_cast<size_t>(nodes - 1));
    CHECK(all == cycles(nodes, nodes - 1));
    std::vector<std::set<int>> met(static_cast<size_t>(nodes));
    for (const std::vector<int>& cycle : all) {
      CHECK_EQ(std::set<int>(cycle.begin(), cycle.end()).size(), static_cast<size_t>(nodes));
      CHECK_EQ(cycle.size(), static_cast<size_t>(nodes));
      for (size_t i = 0; i < cycle.size(); i++) {
        met[static_cast<size_t>(cycle[i])].insert(cycle[(i + 1) % cycle.size()]);
        met[static_cast<size_t>(cycle[(i + 1) % cycle.size()])].insert(cycle[i]);
      }
    }
    for (const std::set<int>& others : met) CHECK(static_cast<int>(others.size()) >= (nodes - 1) * 3 / 4);
  }
}

TEST(plan_cuts_meet_the_lower_bound_with_as_many_cycles_as_other_nodes) {
  for (const int nodes : {3, 4, 8}) {
    const auto all = cycles(nodes, nodes - 1);
    for (int slow = 0; slow < nodes; slow++) {
      for (const double x : {1.0 / 8, 1.0 / 4, 1.0 / 3, 1.0 / 2, 3.0 / 4}) {
        const std::vector<double> bandwidths = bandwidthsWithOneSlow(nodes, slow, x);
        const Cuts found = cutCycles(all, bandwidths, loadInRing(nodes));
        CHECK(found.time <= boundOfOneSlow(nodes, x) * 1.034);
        CHECK(std::abs(timeOf(found, all, bandwidths) - found.time) < 1e-9);
      }
    }
  }
}

TEST(plan_cuts_are_never_faster_than_can_be_nor_slower_than_balance) {
  for (const int nodes : {3, 5, 16, 64, 200}) {
    for (const int count : {1, 3, 7}) {
      const auto all = cycles(nodes, count);
      for (const double x : {0.1, 0.4, 0.9}) {
        std::vector<double> bandwidths = bandwidthsWithOneSlow(nodes, nodes / 2, x);
        bandwidths[0] = 0.7;
        const Cuts found = cutCycles(all, bandwidths, loadInRing(nodes));
        double sum = 0, share = found.ringShare, slowest = 1;
        for (const double bandwidth : bandwidths) sum += bandwidth, slowest = std::min(slowest, bandwidth);
        for (const Cut& cut : found.cuts) share += cut.share;
        CHECK(std::abs(share - 1) < 1e-9);
        CHECK(found.time >= std::max(1 / slowest, 2 * (nodes - 1) / sum) - 1e-9);
        CHECK(found.time <= loadInRing(nodes) / slowest * 1.02);
        CHECK(std::abs(timeOf(found, all, bandwidths) - found.time) < 1e-9);
      }
    }
  }
}

TEST(plan_cuts_spare_whole_nodes_where_that_costs_nothing) {
  // One of two NICs lost: the slow node bounds the time wherever the other end is, so all others take turns.
  const auto all = cycles(4, 3);
  const Cuts found = cutCycles(all, bandwidthsWithOneSlow(4, 2, 0.5), loadInRing(4));
  CHECK_EQ(found.cuts.size(), size_t{3});
  for (const Cut& cut : found.cuts) CHECK(std::abs(cut.share - 1.0 / 3) < 1e-9);
}

TEST(plan_with_cycles_cuts_them) {
  Request request = r2cc::check::degraded(4, 2, 1.0 / 3, Schedule::Auto);
  for (const std::vector<int>& nodes : cycles(4, 3)) {
    std::vector<int> ranks;
    for (const int node : nodes) ranks.push_back(2 * node + 1), ranks.push_back(2 * node);  // as a ring may pass them
    request.cycles.push_back(ranks);
  }
  const Plan found = plan(request);
  CHECK(found.schedule == Schedule::Chain);
  size_t chains = 0;
  for (const Part& part : found.parts) {
    if (part.kind != Kind::Chain) continue;
    chains++;
    const std::vector<int>& cycle = request.cycles[static_cast<size_t>(part.cycle)];
    const auto from = std::find(cycle.begin(), cycle.end(), part.order.front()) - cycle.begin();
    CHECK_EQ(from % 2, 0);
    for (size_t i = 0; i < cycle.size(); i++) {
      CHECK_EQ(part.order[i], cycle[(static_cast<size_t>(from) + i) % cycle.size()]);
    }
    CHECK(part.order.front() / 2 == 1 || part.order.back() / 2 == 1);  // the slow node is an end
  }
  CHECK(chains >= 2);
  for (const Candidate& each : found.candidates) {
    if (each.schedule == found.schedule) CHECK(each.predictedUs.value_or(0) <= found.boundUs * 1.034);
  }
  const Plan again = planFromJson(toJson(found));
  for (size_t i = 0; i < found.parts.size(); i++) CHECK_EQ(again.parts[i].cycle, found.parts[i].cycle);
  for (const auto& wrong : {std::vector<int>{0, 1, 2}, {0, 2, 1, 3, 4, 5, 6, 7}, {0, 0, 2, 3, 4, 5, 6, 7}}) {
    request.cycles = {wrong};
    bool refused = false;
    try {
      plan(request);
    } catch (const PlanError& error) {
      refused = std::string(error.what()).find("cycle 0") != std::string::npos;
    }
    CHECK(refused);
  }
}

namespace {

Request withHomes(int nodes, int nics) {
  Request request;
  for (int i = 0; i < nodes; i++) request.nodes.push_back(r2cc::check::planNode(i, 1, nics, 1));
  request.nodes[1].nics[0].capacity = 0;
  request.bytes = uint64_t{64} << 30;  // so that it does not matter how long pipelines take to be filled
  request.cycles = cycles(nodes, nodes - 1);
  for (int nic = 0; nic < nics; nic++) request.homes.push_back(nic);
  request.cost.evenRails = false;
  request.cost.ringEfficiency = request.cost.chainEfficiency = 1;
  return request;
}

}  // namespace

TEST(plan_channels_are_cut_so_that_rails_are_even) {
  // Node 1 lost one of its NICs: what others send it goes over the rails that it has, and meets there what they send
  // each other. With the same cuts on all homes the busiest NIC of 4 x 3 takes 1.333 of the healthy ring's time.
  const struct {
    int nodes, nics;
    double most;
  } cases[] = {{4, 2, 4.0 / 3}, {4, 3, 12.0 / 11}, {4, 4, 10.0 / 9}, {5, 2, 1.25}, {8, 2, 8.0 / 7}, {8, 3, 1.09}};
  for (const auto& [nodes, nics, most] : cases) {
    Request request = withHomes(nodes, nics);
    const Plan found = plan(request);
    CHECK(found.schedule == Schedule::Chain);
    std::vector<std::vector<bool>> used(request.cycles.size(), std::vector<bool>(request.homes.size(), false));
    double sum = 0;
    // All connections carry the same: a ring's 2 (p - 1) / p of its share, a chain's all of it.
    const auto each = [&](const Part& part) {
      const double load = part.kind == Kind::Ring ? r2cc::check::ringLoadOf(request) : 1;
      return part.share * load / static_cast<double>(part.homes.size());
    };
    for (const Part& part : found.parts) {
      sum += part.share;
      CHECK(std::abs(each(part) / each(found.parts.front()) - 1) < 1e-9);
      for (const int home : part.homes) {
        const auto cycle = static_cast<size_t>(part.cycle), which = static_cast<size_t>(home);
        CHECK(!used[cycle][which]);
        used[cycle][which] = true;
      }
    }
    CHECK(std::abs(sum - 1) < 1e-9);
    const double busiest = r2cc::check::counted(request, found);
    CHECK(busiest <= most * (1 + 1e-6));
    CHECK(std::abs(found.predictedUs / found.healthyUs - busiest) < 0.01);
    CHECK(planFromJson(toJson(found)).parts.back().homes == found.parts.back().homes);
    CHECK_EQ(planFromJson(toJson(found)).inTurn, found.inTurn);
  }
}

TEST(plan_of_three_nics_is_at_the_bound_where_connections_take_one_other_nic_each) {
  // Spread over both NICs that are left, half a connection meets whole ones on each: 8/7 is the least, by 7 of 9
  // channels. Bound: 6 transfers of the message over 11 NICs, of 6 over 12.
  Request request = withHomes(4, 3);
  const Plan found = plan(request);
  CHECK(found.inTurn && std::abs(r2cc::check::counted(request, found) - 12.0 / 11) < 1e-9);
  CHECK(exactText(found).find(", in turn, ") != std::string::npos);
  request.inTurn = false;
  const Plan spread = plan(request);
  CHECK(!spread.inTurn && std::abs(r2cc::check::counted(request, spread) - 8.0 / 7) < 1e-9);
  CHECK(exactText(spread).find("in turn") == std::string::npos);
  request = withHomes(4, 2);  // one NIC is left: there is no choice
  CHECK(!plan(request).inTurn);
}

TEST(plan_turns_count_all_channels_of_a_home) {
  const std::vector<int> homes{0, 1, 0, 1};
  CHECK_EQ(turnOf(0, 0, homes), 0);
  CHECK_EQ(turnOf(0, 2, homes), 1);
  CHECK_EQ(turnOf(0, 3, homes), 1);
  CHECK_EQ(turnOf(2, 1, homes), 4);
}

TEST(plan_channels_are_used_alike_on_whole_nodes) {
  Request request = withHomes(4, 3);
  request.nodes[1].nics[0].capacity = 1;
  request.schedule = Schedule::Chain;
  for (const Part& part : plan(request).parts) {
    if (part.kind == Kind::Chain) CHECK_EQ(part.homes.size(), size_t{3});
  }
  request.homes = {3};
  bool refused = false;
  try {
    plan(request);
  } catch (const PlanError&) {
    refused = true;
  }
  CHECK(refused);
}
