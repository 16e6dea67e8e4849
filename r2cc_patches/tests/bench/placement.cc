// Where a plan's connections are at home, and how long it then takes in a network that is arithmetic.
#include "bench/programs/placement.h"

#include <algorithm>

#include "bench/errors.h"
#include "bench/programs/plan_schedule.h"
#include "bench/support/sim.h"
#include "check.h"

using namespace r2cc::bench;
using namespace r2cc::planner;
using r2cc::test::Sim;
using r2cc::test::SimNet;

namespace {

constexpr double kRateGbit = 0.2;
constexpr uint64_t kBytes = 32u << 20;

struct Bed {
  int hosts;
  size_t nics;
  std::vector<int> degraded;  // hosts that lost their first NIC
  uint64_t bytes = kBytes;

  bool down(int host, size_t nic) const {
    return nic == 0 && std::find(degraded.begin(), degraded.end(), host) != degraded.end();
  }

  Plan planOf(Schedule schedule) const {
    Request request;
    request.bytes = bytes;
    request.schedule = schedule;
    request.cost.chunkBytes = std::max(8192, 2556 * (hosts - 1));  // the bench's smallest
    for (int host = 0; host < hosts; host++) {
      request.nodes.push_back({"h" + std::to_string(host), {host}, {}});
      for (size_t nic = 0; nic < nics; nic++) {
        request.nodes.back().nics.push_back({"eth" + std::to_string(nic), kRateGbit, down(host, nic) ? 0.0 : 1.0});
      }
    }
    request.cost.evenRails = false;  // the bench places what it runs
    return plan(request);
  }

  std::vector<RankNics> ranks() const {
    std::vector<RankNics> all;
    for (int host = 0; host < hosts; host++) {
      all.push_back({"h" + std::to_string(host), {}, {}});
      for (size_t nic = 0; nic < nics; nic++) all.back().capacities.push_back(down(host, nic) ? 0.0 : 1.0);
    }
    return all;
  }

  double healthyNicBytes() const {
    return 2.0 * (hosts - 1) / hosts * static_cast<double>(bytes) / static_cast<double>(nics);
  }
};

struct Placed {
  Plan plan;
  std::vector<FlowPlan> flows;
  std::vector<std::vector<NicLoad>> loads;
  double worst = 0;  // the busiest NIC's bytes beside those of the healthy ring
};

Placed placed(const Bed& bed, Schedule schedule, int channels, bool balances = false) {
  Placed out;
  out.plan = bed.planOf(schedule);
  Options options;
  options.rank = 0;
  options.ranks = bed.hosts;
  options.bytes = bed.bytes;
  options.channels = channels;
  options.plan = out.plan;
  out.flows = flowsOf(options, static_cast<int>(bed.nics));
  out.loads = placeNics(out.flows, bed.ranks(), balances);
  for (const auto& rank : out.loads) {
    for (const NicLoad& nic : rank) out.worst = std::max({out.worst, nic.tx, nic.rx});
  }
  out.worst /= bed.healthyNicBytes();
  return out;
}

double simulated(const Bed& bed, const Placed& run) {
  const SimNet net{bed.nics, kRateGbit * 125, 300};
  const double us = Sim(run.flows, static_cast<size_t>(bed.hosts), net).run();
  return us / (bed.healthyNicBytes() / net.bytesPerUs);
}

}  // namespace

TEST(no_nic_carries_more_than_its_host_must) {
  // A rail's NIC that leads to a host with one NIC less is full of what goes there: the rest goes over the others.
  CHECK(placed({4, 2, {1}}, Schedule::Chain, 2).worst < 1.34);
  CHECK(placed({4, 2, {1}}, Schedule::ChainFixed, 2).worst < 1.34);  // rails alternate along the chain
  CHECK(placed({8, 2, {1}}, Schedule::Chain, 2).worst < 1.15);
  CHECK(placed({8, 2, {1, 2}}, Schedule::Chain, 2).worst < 1.15);
  CHECK(placed({4, 4, {1}}, Schedule::Chain, 4).worst < 1.07);
  CHECK(placed({8, 4, {1}, 3 * kBytes}, Schedule::Chain, 2).worst < 1.04);  // a ring and seven chains: all NICs alike
  CHECK(placed({4, 2, {}}, Schedule::Ring, 2).worst < 1.001);
  CHECK(placed({4, 4, {1}}, Schedule::Ring, 4, true).worst < 1.34);  // spread by the net
}

TEST(nothing_is_at_home_where_a_nic_is_gone_unless_the_net_spreads_it) {
  const Bed bed{4, 2, {1}};
  const Placed run = placed(bed, Schedule::Chain, 3);
  for (const FlowPlan& flow : run.flows) {
    for (size_t edge = 0; edge < flow.nics.size(); edge++) {
      const Edge& ends = flow.sequence.edges[edge];
      if (ends.from == 1 || ends.to == 1) CHECK_EQ(flow.nics[edge], 1);
    }
  }
  CHECK_EQ(run.loads[1][0].tx + run.loads[1][0].rx, 0.0);
}

// It was all eight, which load NICs as evenly, and wait for one another: measured 1.57 of healthy instead of 1.15.
TEST(no_more_connections_than_needed_are_at_home_where_a_nic_is_gone) {
  const Placed run = placed({4, 8, {1}}, Schedule::Ring, 8, true);
  std::vector<int> spread(4, 0);  // by the host that sends
  for (const FlowPlan& flow : run.flows) {
    for (size_t edge = 0; edge < flow.nics.size(); edge++) {
      const Edge& ends = flow.sequence.edges[edge];
      const bool struck = ends.from == 1 || ends.to == 1;
      if (struck && flow.nics[edge] == 0) spread[static_cast<size_t>(ends.from)]++;
    }
  }
  CHECK(spread == (std::vector<int>{1, 1, 0, 0}));
  CHECK(run.worst < 1.144);
}

TEST(connections_of_a_plan_carry_about_as_much_each) {
  Plan plan;
  plan.parts = {{Kind::Chain, 0.2, {0, 1, 2, 3}}, {Kind::Chain, 0.4, {1, 0, 2, 3}}, {Kind::Chain, 0.4, {2, 1, 0, 3}}};
  CHECK(channelsOf(plan, 2) == (std::vector<int>{2, 4, 4}) || channelsOf(plan, 2) == (std::vector<int>{1, 2, 2}));
  plan.parts = {{Kind::Ring, 1, {0, 1, 2, 3}}};
  CHECK(channelsOf(plan, 3) == std::vector<int>{3});
}

TEST(plans_take_as_long_as_the_planner_says) {
  for (const Schedule schedule : {Schedule::Chain, Schedule::ChainFixed, Schedule::OptCC}) {
    for (const int hosts : {4, 8}) {
      if (schedule == Schedule::OptCC && hosts == 8) continue;  // takes long to simulate
      const Bed bed{hosts, 2, {1}, kBytes / 2};
      const Placed run = placed(bed, schedule, 1);
      CHECK(simulated(bed, run) < 1.05 * run.plan.predictedUs / run.plan.healthyUs);
    }
  }
  // Beside a ring, too: chunks of the same size, connections that carry as much, none of OptCC's shards behind another.
  for (const Schedule schedule : {Schedule::Chain, Schedule::OptCC}) {
    const Bed bed{4, 4, {1}};
    const Placed run = placed(bed, schedule, 2);
    CHECK(simulated(bed, run) < 1.03 * run.plan.predictedUs / run.plan.healthyUs);
  }
  CHECK(simulated({8, 2, {1, 2}}, placed({8, 2, {1, 2}}, Schedule::Chain, 2)) < 1.22);
}

TEST(placements_are_told_as_text) {
  const Bed bed{4, 2, {1}};
  const Placed run = placed(bed, Schedule::Chain, 2);
  std::vector<FlowPlan> flows = run.flows;
  for (FlowPlan& flow : flows) std::fill(flow.nics.begin(), flow.nics.end(), -1);
  const std::string text = textOf(run.flows, run.loads);
  const std::vector<NicLoad> loads = takePlacement(text, flows, 2);
  for (size_t i = 0; i < flows.size(); i++) CHECK(flows[i].nics == run.flows[i].nics);
  CHECK_EQ(loads.size(), 2U);
  CHECK_EQ(loads[1].rx, run.loads[2][1].rx);
  CHECK(!THROWN(TransportError, takePlacement(text.substr(0, 5), flows, 2)).empty());
  const RankNics nics = nicsFrom(textOf(RankNics{"a host", {1.0, 0.25}, {"eth0", "eth1"}}));
  CHECK_EQ(nics.host, std::string("a host"));
  CHECK(nics.capacities == (std::vector<double>{1.0, 0.25}));
  CHECK(nics.names == (std::vector<std::string>{"eth0", "eth1"}));
  CHECK(!THROWN(TransportError, nicsFrom("a host\n3 1 1")).empty());
}

TEST(a_nic_that_a_host_s_net_left_out_is_one_that_carries_nothing) {
  std::vector<RankNics> ranks{{"a", {1.0, 0.5}, {"eth0", "eth1"}}, {"b", {1.0}, {"eth1"}}};
  CHECK(align(ranks) == (std::vector<std::string>{"eth0", "eth1"}));
  CHECK(ranks[0].capacities == (std::vector<double>{1.0, 0.5}));
  CHECK(ranks[1].capacities == (std::vector<double>{0.0, 1.0}));
}
