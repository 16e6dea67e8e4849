// Chains as cuts of cycles that were connected before anybody knew which node would be slow.
#include <algorithm>
#include <cmath>
#include <set>

#include "check.h"
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

/// How long the busiest NIC is busy, of the ring's time on whole nodes, counted edge by edge: a channel's messages go
/// over its home's rail, else evenly over the rails that both ends have. One NIC carries 1 in time 1.
double busiestNic(const Request& request, const Plan& plan) {
  const size_t nodes = request.nodes.size(), nics = request.homes.size();
  std::vector<double> out(nodes * nics, 0);
  for (const Part& part : plan.parts) {
    for (const int home : part.homes) {
      const double load = part.share / static_cast<double>(part.homes.size());
      for (size_t i = 0; i + 1 < part.order.size(); i++) {
        const auto a = static_cast<size_t>(part.order[i]), b = static_cast<size_t>(part.order[i + 1]);
        std::vector<size_t> rails;
        const auto both = [&](size_t rail) {
          return request.nodes[a].nics[rail].capacity > 0 && request.nodes[b].nics[rail].capacity > 0;
        };
        for (size_t rail = 0; rail < nics; rail++) {
          if (both(static_cast<size_t>(home)) ? rail == static_cast<size_t>(home) : both(rail)) rails.push_back(rail);
        }
        for (const size_t rail : rails) {  // as much the other way
          out[a * nics + rail] += load / static_cast<double>(rails.size());
          out[b * nics + rail] += load / static_cast<double>(rails.size());
        }
      }
    }
  }
  const double most = *std::max_element(out.begin(), out.end());
  return most * static_cast<double>(nics * nodes) / (2 * (static_cast<double>(nodes) - 1));
}

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
  } cases[] = {{4, 2, 4.0 / 3}, {4, 3, 8.0 / 7}, {4, 4, 1.2}, {5, 2, 1.25}, {8, 2, 8.0 / 7}, {8, 3, 1.09}};
  for (const auto& [nodes, nics, most] : cases) {
    Request request = withHomes(nodes, nics);
    const Plan found = plan(request);
    CHECK(found.schedule == Schedule::Chain);
    std::vector<std::vector<bool>> used(request.cycles.size(), std::vector<bool>(request.homes.size(), false));
    double sum = 0;
    size_t channels = 0;
    for (const Part& part : found.parts) channels += part.homes.size();
    for (const Part& part : found.parts) {
      sum += part.share;
      CHECK(std::abs(part.share * static_cast<double>(channels) - static_cast<double>(part.homes.size())) < 1e-9);
      for (const int home : part.homes) {
        const auto cycle = static_cast<size_t>(part.cycle), which = static_cast<size_t>(home);
        CHECK(!used[cycle][which]);
        used[cycle][which] = true;
      }
    }
    CHECK(std::abs(sum - 1) < 1e-9);
    const double busiest = busiestNic(request, found);
    CHECK(busiest <= most * (1 + 1e-6));
    CHECK(std::abs(found.predictedUs / found.healthyUs - busiest) < 0.01);
    CHECK(planFromJson(toJson(found)).parts.back().homes == found.parts.back().homes);
  }
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
