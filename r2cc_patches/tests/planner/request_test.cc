// Odd requests: each either has the one plan that makes sense or says what is wrong with it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "check.h"
#include "requests.h"

using namespace r2cc::planner;
using r2cc::check::bare;
using r2cc::check::degraded;
using r2cc::check::inUnits;
using r2cc::check::planNode;
using r2cc::check::says;

namespace {

std::string problemOf(const Request& request) { return THROWN(PlanError, plan(request)); }

double shares(const Plan& plan) {
  double sum = 0;
  for (const Part& part : plan.parts) sum += part.share;
  return sum;
}

bool oneRing(const Plan& plan) { return plan.parts.size() == 1 && plan.parts[0].kind == Kind::Ring; }

}  // namespace

TEST(plan_of_one_node_is_a_ring_without_bytes) {
  for (const int ranks : {1, 8}) {
    Request request;
    request.nodes = {planNode(0, ranks, 0, 1)};
    request.bytes = 1 << 20;
    const Plan plan = r2cc::planner::plan(request);
    CHECK(oneRing(plan));
    CHECK_EQ(plan.parts[0].order.size(), static_cast<size_t>(ranks));
    CHECK_EQ(plan.nodes[0].txBytes, 0.0);
    CHECK_EQ(plan.boundUs, 0.0);
    CHECK(says(plan.why, "one node"));
  }
}

TEST(plan_of_two_nodes_gains_nothing_with_one_rank_each) {
  for (const Schedule schedule : {Schedule::Auto, Schedule::Chain, Schedule::Published, Schedule::OptCC}) {
    const Request request = degraded(2, 1, 0.5, schedule);
    CHECK(std::abs(inUnits(plan(request).predictedUs, request) - 2) < 1e-6);
  }
  CHECK(oneRing(plan(degraded(2, 1, 0.5, Schedule::Auto))));
  // With several ranks a node a chain crosses between the nodes once, a ring nearly twice.
  const Request request = degraded(2, 8, 0.5, Schedule::Auto);
  CHECK(std::abs(inUnits(plan(request).predictedUs, request) - 2) < 1e-6);
  CHECK(plan(request).parts[0].kind == Kind::Chain);
}

TEST(plan_with_no_degraded_node_is_a_plain_ring) {
  for (const int nodes : {2, 4, 7}) {
    const Plan plan = r2cc::planner::plan(degraded(nodes, 2, 0, Schedule::Auto));
    CHECK(oneRing(plan));
    CHECK(!plan.thresholdBytes);
    CHECK(says(plan.why, "no node is slower"));
    for (int rank = 0; rank < 2 * nodes; rank++) CHECK_EQ(plan.parts[0].order[static_cast<size_t>(rank)], rank);
  }
  CHECK(oneRing(plan(degraded(4, 1, 0, Schedule::OptCC))));
  CHECK(oneRing(plan(degraded(4, 1, 0, Schedule::Published))));
}

TEST(plan_of_equal_nodes_loads_them_equally) {
  const Plan plan = r2cc::planner::plan(degraded(4, 1, 0, Schedule::Chain));
  CHECK_EQ(plan.parts.size(), size_t{2});
  for (const NodePlan& node : plan.nodes) CHECK(std::abs(node.txBytes - plan.nodes[0].txBytes) < 1e-3);
}

TEST(plan_of_nothing_and_of_very_much) {
  Request request = degraded(4, 1, 0.5, Schedule::Auto);
  request.cost = Cost{};
  request.bytes = 0;
  const Plan none = plan(request);
  CHECK(none.schedule == Schedule::Tree);  // hops are all there is, and it has the fewest
  CHECK_EQ(none.boundUs, 0.0);
  for (const Candidate& each : none.candidates) {
    if (each.schedule == Schedule::Tree) CHECK_EQ(each.predictedUs.value_or(0), 4 * request.cost.hopUs);
  }
  CHECK_EQ(none.predictedUs, 6 * request.cost.hopUs);  // as the healthy ring: that a node is slower is no gain
  request.bytes = uint64_t{1} << 62;
  const Plan much = plan(request);
  CHECK(much.parts[0].kind != Kind::Ring || much.parts.size() > 1);
  CHECK(std::isfinite(much.predictedUs) && much.predictedUs >= much.boundUs);
  CHECK(much.thresholdBytes.value_or(0) > 0);
}

TEST(plan_takes_the_special_schedule_from_the_threshold_on) {
  Request request = degraded(4, 1, 0.5, Schedule::Auto);
  request.cost = Cost{};
  const uint64_t from = plan(request).thresholdBytes.value_or(0);
  CHECK(from > 0);
  CHECK((from & (from - 1)) == 0);
  request.bytes = from;
  CHECK(!oneRing(plan(request)));
  request.bytes = from / 2;
  CHECK(oneRing(plan(request)));
  CHECK_EQ(plan(request).thresholdBytes.value_or(0), from);
}

TEST(plan_has_no_more_parts_than_channels) {
  for (const int nodes : {3, 5, 8}) {
    for (const double x : {0.125, 0.25, 0.5, 0.75}) {
      double before = std::numeric_limits<double>::infinity();
      for (int channels = 1; channels <= 128; channels += channels < 10 ? 1 : 59) {
        for (const Schedule schedule : {Schedule::Published, Schedule::ChainFixed, Schedule::OptCC, Schedule::Chain}) {
          Request request = degraded(nodes, 1, x, schedule);
          request.channels = channels;
          const Plan plan = r2cc::planner::plan(request);
          CHECK(!plan.parts.empty() && plan.parts.size() <= static_cast<size_t>(channels));
          CHECK(std::abs(shares(plan) - 1) < 1e-12);
          if (schedule != Schedule::Chain) continue;
          CHECK(plan.predictedUs <= before * (1 + 1e-6));  // more channels are never worse
          before = plan.predictedUs;
        }
      }
    }
  }
}

TEST(plan_of_what_has_no_special_schedule_is_a_ring_that_says_why) {
  Request request = degraded(4, 1, 0.5, Schedule::Auto);
  for (const char* op : {"allgather", "reducescatter", "broadcast", "reduce", "sendrecv", "alltoall"}) {
    request.op = op;
    const Plan plan = r2cc::planner::plan(request);
    const bool direct = request.op == "sendrecv" || request.op == "alltoall";
    CHECK(direct ? plan.schedule == Schedule::Direct && plan.parts.size() == 1 : oneRing(plan));
    CHECK(says(plan.why, op) && plan.predictedUs >= plan.boundUs);
  }
  request.op = "allreduce";
  request.reduction = "premulsum";
  CHECK(oneRing(plan(request)) && says(plan(request).why, "premulsum"));
}

TEST(plan_of_all_to_all_is_no_ring) {
  constexpr double kBytesAUs = 125;  // of 1 Gbit/s
  for (const double x : {0.0, 0.125, 0.5}) {
    for (const int nodes : {2, 3, 8}) {
      for (const int ranks : {1, 4}) {
        Request request = degraded(nodes, ranks, x, Schedule::Auto);
        request.op = "alltoall";
        const auto bytes = static_cast<double>(request.bytes);
        // Each of a node's ranks has its own for every rank elsewhere.
        const double us = ranks * (1 - 1.0 / nodes) * bytes / kBytesAUs;
        const Plan found = plan(request);
        CHECK(found.schedule == Schedule::Direct && found.parts.front().kind == Kind::Direct);
        CHECK(std::abs(found.boundUs / (us / (1 - x)) - 1) < 1e-9);
        CHECK(std::abs(found.predictedUs / found.boundUs - 1) < 1e-9);
        CHECK(std::abs(found.healthyUs / us - 1) < 1e-9);
        request.cost.hopUs = 10;  // all at once: one hop, however many ranks
        CHECK(std::abs(plan(request).latencyUs - 10) < 1e-9);
      }
    }
  }
}

TEST(plan_of_gather_and_scatter_on_balanced_paths_is_at_the_bound) {
  // What enters a node (leaves it, of ReduceScatter) is all that it has not: no share of it can be spared.
  for (const char* op : {"allgather", "reducescatter"}) {
    for (const double x : {0.0, 0.125, 0.5, 0.9}) {
      for (const int nodes : {2, 3, 8}) {
        Request request = degraded(nodes, 1, x, Schedule::Auto);
        request.op = op;
        request.nodes[0].nics[0].rateGbit = 1.5;
        const Plan one = plan(request);
        CHECK(std::abs(one.predictedUs / one.boundUs - 1) < 1e-12);
        // Several ranks a node: the ring brings a node its own again, which no choice of shares changes.
        Request several = degraded(nodes, 4, x, Schedule::Auto);
        several.op = op;
        const Plan plan = r2cc::planner::plan(several);
        CHECK(std::abs(plan.predictedUs / plan.boundUs - (4.0 * nodes - 1) / (4.0 * nodes - 4)) < 1e-12);
      }
    }
  }
}

TEST(plan_knows_that_many_chains_are_filled_longer_than_one) {
  // 1 of 2 NICs lost on one of eight: by bandwidth one chain is as fast as seven that take turns.
  Request request;
  for (int i = 0; i < 8; i++) request.nodes.push_back(planNode(i, 1, 2, 1));
  request.nodes[1].nics[0].capacity = 0;
  request.cost.evenRails = false;
  request.cost.chunkBytes = 14336;
  bare(request.cost);
  request.bytes = 32 << 20;
  const Plan one = plan(request);
  CHECK(one.parts.size() == 1 && one.schedule == Schedule::ChainFixed);
  // Thirteen chunks more, each as long as the whole takes for its bytes.
  CHECK(std::abs(one.predictedUs / one.boundUs - (1 + 13 * 14336.0 / (32 << 20))) < 0.001);
  // 1 of 4: what turns gain is more than what they cost, in large messages.
  for (Node& node : request.nodes) node.nics = planNode(0, 1, 4, 1).nics;
  request.nodes[1].nics[0].capacity = 0;
  CHECK(plan(request).parts.size() == 2 && plan(request).schedule == Schedule::ChainFixed);
  request.bytes = 512 << 20;
  CHECK(plan(request).parts.size() > 6 && plan(request).schedule == Schedule::Chain);
}

TEST(plan_problems_are_all_named) {
  Request request = degraded(4, 1, 0.5, Schedule::Auto);
  request.nodes[2].nics[0].capacity = std::numeric_limits<double>::quiet_NaN();
  request.nodes[3].nics[0].capacity = -0.5;
  request.nodes[0].nics[0].rateGbit = -1;
  request.channels = -1;
  request.datatype = "float12";
  request.op = "allswap";
  request.cost.hopUs = std::numeric_limits<double>::infinity();
  const std::string problem = problemOf(request);
  for (const char* part : {"h2:eth0", "h3:eth0", "h0:eth0", "channels", "float12", "allswap", "cost.hop_us"}) {
    CHECK(says(problem, part));
  }
}

TEST(plan_problems_with_nodes_and_ranks) {
  Request gone = degraded(4, 1, 1, Schedule::Auto);
  CHECK(says(problemOf(gone), "node h1 has no capacity at all"));
  for (const double rate : {1e-300, 5e-324}) {  // what is divided by it has no number
    for (Node& node : gone.nodes) node.nics[0] = {"eth0", rate, 1};
    CHECK(says(problemOf(gone), "node h3 has no capacity at all"));
  }
  Request twice = degraded(4, 1, 0.5, Schedule::Auto);
  twice.nodes[3].ranks = {0};
  CHECK(says(problemOf(twice), "rank 0 is there twice"));
  twice.nodes[3].ranks = {4};
  CHECK(says(problemOf(twice), "ranks must be 0 to 3: there is 4, but no 3"));
  twice.nodes[3].ranks = {};
  CHECK(says(problemOf(twice), "node h3 has no ranks"));
  twice.nodes[3].name = "h0";
  CHECK(says(problemOf(twice), "node h0 is there twice"));
  CHECK(says(problemOf(Request{}), "there are no nodes"));
  Request many;
  for (int i = 0; i < 40; i++) many.nodes.push_back(planNode(i, 1, 1, -1));
  CHECK(says(problemOf(many), "more"));
}

TEST(plan_bounds_cover_every_element_once) {
  const Plan plan = r2cc::planner::plan(degraded(5, 1, 0.25, Schedule::Chain));
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{1000003}, uint64_t{1} << 62}) {
    for (const uint64_t granule : {uint64_t{1}, uint64_t{4}, uint64_t{1000}}) {
      const auto edges = bounds(plan, count, granule);
      CHECK_EQ(edges.size(), plan.parts.size() + 1);
      CHECK_EQ(edges.front(), uint64_t{0});
      CHECK_EQ(edges.back(), count);
      CHECK(std::is_sorted(edges.begin(), edges.end()));
      for (size_t i = 0; i + 1 < edges.size(); i++) CHECK(edges[i] == count || edges[i] % granule == 0);
    }
  }
  CHECK(says(THROWN(PlanError, bounds(plan, 1, 0)), "granule"));
}
