// Double trees: loads counted from the edges themselves, for NCCL's own and for ours.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "check.h"
#include "formulas.h"
#include "planner/cost/nccl_table.h"
#include "planner/shapes/tree.h"
#include "requests.h"

using namespace r2cc::planner;
using r2cc::check::degraded;
using r2cc::check::inUnits;

namespace {

std::vector<int> counted(int nodes) {
  std::vector<int> slots(static_cast<size_t>(nodes));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

/// In messages, half of one in either tree.
std::vector<double> loadsOf(const std::vector<int>& slots) {
  const auto nodes = static_cast<int>(slots.size());
  std::vector<double> loads(slots.size(), 0);
  for (const std::vector<int>& tree : {slots, twinOf(slots)}) {
    for (int slot = 1; slot < nodes; slot++) {
      loads[static_cast<size_t>(tree[static_cast<size_t>(slot)])] += 0.5;
      loads[static_cast<size_t>(tree[static_cast<size_t>(treeParent(nodes, slot))])] += 0.5;
    }
  }
  return loads;
}

/// What each rank sends, of a plan's parts: one for each of its tree's edges, two inside a chain, and so on.
std::vector<double> sentBy(const Plan& plan, int nodes, int ranksEach) {
  std::vector<double> sent(static_cast<size_t>(nodes), 0);
  for (const Part& part : plan.parts) {
    if (part.kind == Kind::Ring) {
      for (double& load : sent) load += part.share * ringLoad(nodes * ranksEach);
      continue;
    }
    CHECK(part.kind == Kind::Tree);
    CHECK_EQ(part.order.size(), static_cast<size_t>(nodes * ranksEach));
    CHECK_EQ(std::set<int>(part.order.begin(), part.order.end()).size(), part.order.size());
    CHECK_EQ(part.parents.at(0), -1);
    int between = 0;
    for (size_t i = 1; i < part.order.size(); i++) {
      CHECK(part.parents[i] >= 0 && part.parents[i] < static_cast<int>(i));
      const int node = part.order[i] / ranksEach;
      const int above = part.order[static_cast<size_t>(part.parents[i])] / ranksEach;
      if (node == above) continue;
      sent[static_cast<size_t>(node)] += part.share;
      sent[static_cast<size_t>(above)] += part.share;
      between++;
    }
    CHECK_EQ(between, nodes - 1);
  }
  return sent;
}

}  // namespace

TEST(plan_tree_light_slots_of_nccl) {
  for (int nodes = 3; nodes <= 2048; nodes++) {
    const std::vector<double> loads = treeLoads(nodes);
    for (int slot = 0; slot < nodes; slot++) {
      const bool light = nodes % 2 == 0 ? slot == 0 || slot == nodes - 1 : slot == 1;
      CHECK(light ? loads[static_cast<size_t>(slot)] == 1 : loads[static_cast<size_t>(slot)] <= 2);
    }
  }
}

TEST(plan_tree_has_two_light_slots_and_all_others_alike) {
  for (int nodes = 3; nodes <= 2048; nodes++) {
    const LightSlots light = lightSlots(nodes);
    CHECK(light.first != light.second);
    const std::vector<double> loads = loadsOf(counted(nodes));
    for (int slot = 0; slot < nodes; slot++) {
      CHECK_EQ(loads[static_cast<size_t>(slot)], slot == light.first || slot == light.second ? 1.0 : 2.0);
    }
    const std::vector<int> degrees = treeDegrees(nodes);
    CHECK_EQ(degrees[static_cast<size_t>(light.first)], 1);
    CHECK(light.first % 2 == 1 && twinOf(counted(nodes))[static_cast<size_t>(light.first)] == light.first);  // leaves
    const int depth = treeDepth(nodes);
    CHECK((1 << depth) >= nodes && (1 << (depth - 1)) < nodes);
  }
}

TEST(plan_tree_costs_nothing_more_up_to_a_half) {
  // D/B 2 is what a double tree takes on whole nodes. 1/(1-x) is the least that any schedule takes.
  for (int nodes = 3; nodes <= 200; nodes += nodes < 20 ? 1 : 37) {
    for (const int ranksEach : {1, 4}) {
      for (const double x : {0.125, 0.25, 0.5, 0.6}) {
        const Request request = degraded(nodes, ranksEach, x, Schedule::Tree);
        const Plan found = plan(request);
        CHECK(found.schedule == Schedule::Tree);
        const double time = inUnits(found.predictedUs, request);
        CHECK(time <= std::max(2.0, 1 / (1 - x)) + 1e-5);
        CHECK(found.predictedUs >= found.boundUs * (1 - 1e-9));
        const std::vector<double> sent = sentBy(found, nodes, ranksEach);
        double busiest = 0;
        for (int node = 0; node < nodes; node++) {
          const auto i = static_cast<size_t>(node);
          CHECK(std::abs(found.nodes[i].txBytes / static_cast<double>(request.bytes) - sent[i]) < 1e-6);
          busiest = std::max(busiest, sent[i] / (node == 1 ? 1 - x : 1));
        }
        CHECK(std::abs(busiest - time) < 1e-4);
      }
    }
  }
}

TEST(plan_trees_take_turns_where_several_nodes_lost_one_between_them) {
  for (const int nodes : {4, 5, 8, 9, 16, 33}) {
    const std::vector<std::vector<double>> cases{
        {0.5, 0.5}, {0.25, 0.25, 0.5}, {0.25, 0.25, 0.25, 0.25}, {0.125, 0.5, 0.3}};
    for (const std::vector<double>& lost : cases) {
      Request request = degraded(nodes, 1, 0, Schedule::Tree);
      for (size_t i = 0; i < lost.size(); i++) request.nodes[nodes / lost.size() * i].nics[0].capacity = 1 - lost[i];
      const Plan found = plan(request);
      CHECK(found.schedule == Schedule::Tree);
      CHECK(inUnits(found.predictedUs, request) <= 2 + 1e-5);  // as on whole nodes
      const std::vector<double> sent = sentBy(found, nodes, 1);
      for (size_t i = 0; i < sent.size(); i++) CHECK(sent[i] <= 2 * request.nodes[i].nics[0].capacity + 1e-9);
    }
  }
}

TEST(plan_trees_spare_the_rails_of_a_node_that_lost_one) {
  // Eight nodes of two NICs, one lost: with one pair of neighbours for all 2.5, with another for each tree 2.
  Request request;
  for (int i = 0; i < 8; i++) request.nodes.push_back(r2cc::check::planNode(i, 1, 2, 1));
  request.nodes[3].nics[0].capacity = 0;
  request.bytes = uint64_t{64} << 30;
  request.schedule = Schedule::Tree;
  r2cc::check::bare(request.cost);
  request.cost.chunkBytes = 1;
  const Plan turning = plan(request);
  CHECK(turning.predictedUs <= turning.healthyUs * 8 / 7 * 1.001);
  request.channels = 2;
  CHECK(std::abs(plan(request).predictedUs / turning.healthyUs - 2.5 / 1.75) < 0.001);
}

TEST(plan_takes_trees_for_middle_sizes_and_many_nodes) {
  Request request = degraded(64, 1, 0.5, Schedule::Auto);
  request.cost = Cost{};
  request.bytes = 16 << 20;
  CHECK(plan(request).schedule == Schedule::Tree);
  request.bytes = 1024;
  request.cost.hopUs = 1;
  const Plan small = plan(request);
  CHECK(small.latencyUs <= 2 * 6 * 1.0 + 1000);
  const Plan again = planFromJson(toJson(small));
  for (size_t i = 0; i < small.parts.size(); i++) CHECK(again.parts[i].parents == small.parts[i].parents);
}

TEST(plan_tree_needs_three_nodes_and_two_parts) {
  CHECK(plan(degraded(2, 2, 0.5, Schedule::Tree)).schedule == Schedule::Ring);
  Request request = degraded(4, 1, 0.5, Schedule::Tree);
  request.channels = 1;
  CHECK(r2cc::check::says(plan(request).why, "needs two parts"));
}

namespace {

/// The busiest NIC's time over the healthy ring's, counted edge by edge; homes are NICs of their own number.
double busiestOfTrees(const Request& request, const Plan& plan) {
  const size_t nics = request.homes.size(), nodes = request.nodes.size();
  std::vector<double> out(nodes * nics, 0);
  const auto left = [&](size_t node, size_t rail) { return request.nodes[node].nics[rail].capacity; };
  for (const Part& part : plan.parts) {
    for (size_t i = 1; i < part.order.size(); i++) {
      const auto a = static_cast<size_t>(part.order[i]);
      const auto b = static_cast<size_t>(part.order[static_cast<size_t>(part.parents[i])]);
      const auto home = static_cast<size_t>(part.homes.front());
      std::vector<size_t> rails;
      const bool both = left(a, home) > 0 && left(b, home) > 0;
      for (size_t rail = 0; rail < nics; rail++) {
        if (both ? rail == home : left(a, rail) > 0 && left(b, rail) > 0) rails.push_back(rail);
      }
      for (const size_t rail : rails) {  // as much the other way
        out[a * nics + rail] += part.share / static_cast<double>(rails.size());
        out[b * nics + rail] += part.share / static_cast<double>(rails.size());
      }
    }
  }
  return *std::max_element(out.begin(), out.end()) * static_cast<double>(nics) / ringLoad(static_cast<int>(nodes));
}

Request onChannels(int nodes, int nics, size_t lines) {
  Request request;
  for (int i = 0; i < nodes; i++) request.nodes.push_back(r2cc::check::planNode(i, 1, nics, 1));
  request.bytes = uint64_t{64} << 30;
  request.schedule = Schedule::Tree;
  for (size_t i = 0; i < lines; i++) request.cycles.push_back(counted(nodes));
  for (int nic = 0; nic < nics; nic++) request.homes.push_back(nic);
  request.rewired = true;
  request.cost.evenRails = false;
  request.cost.ringEfficiency = request.cost.chainEfficiency = 1;
  return request;
}

}  // namespace

TEST(plan_trees_on_channels_are_placed_so_that_rails_are_even) {
  // By the lower bound 4 x 2 takes 1.333, 8 x 2 1.143, 8 x 4 1.032 of the healthy ring; a double tree on whole
  // nodes 1.143 at 8, and one pair of neighbours for all channels 1.43.
  const struct {
    int nodes, nics;
    size_t lines;
    double most;
  } cases[] = {{4, 2, 3, 4.0 / 3}, {4, 4, 3, 1.3},  {8, 2, 7, 8.0 / 7},
               {8, 4, 6, 8.0 / 7}, {5, 2, 4, 1.26}, {16, 8, 3, 1.08}};
  for (const auto& [nodes, nics, lines, most] : cases) {
    Request request = onChannels(nodes, nics, lines);
    request.nodes[1].nics[0].capacity = 0;
    const Plan found = plan(request);
    CHECK(found.schedule == Schedule::Tree);
    CHECK(found.parts.size() <= lines * static_cast<size_t>(nics));
    std::set<std::pair<int, int>> used;
    for (const Part& part : found.parts) CHECK(used.emplace(part.cycle, part.homes.at(0)).second);
    const double busiest = busiestOfTrees(request, found);
    CHECK(busiest <= most * (1 + 1e-6));
    CHECK(std::abs(found.predictedUs / found.healthyUs - busiest) < 0.01);
    CHECK(planFromJson(toJson(found)).parts.back().homes == found.parts.back().homes);
    request.rewired = false;
    CHECK(plan(request).schedule == Schedule::Ring);
  }
}

TEST(plan_knows_which_slots_nccl_s_own_trees_gave) {
  Request request = onChannels(8, 2, 2);
  request.nodes[3].nics[0].capacity = 0;
  request.rivals = {{"tree/simple", Flow::Tree, 1, 100, {}, {}}};
  const double inOrder = plan(request).baselines[0].balancedUs;
  request.rivals[0].slots = ncclSlots({1, 1, 1, 0.5, 1, 1, 1, 1});
  CHECK(std::abs(plan(request).baselines[0].balancedUs / inOrder - 0.5) <
        1e-3);  // 1 of it, not 2, over half of the NICs
}

TEST(plan_slots_of_nccl_for_nodes_that_lost_nics) {
  CHECK(ncclSlots({1, 1, 1, 1}).empty() && ncclSlots({0.5, 0.5, 0.5}).empty());
  for (int nodes = 3; nodes <= 300; nodes++) {
    const std::vector<double> loads = treeLoads(nodes);
    for (const std::vector<double>& lost : std::vector<std::vector<double>>{{0.5}, {0.5, 0.25}}) {
      if (nodes % 2 == 1 && lost.size() > 1) continue;  // one light slot
      std::vector<double> left(static_cast<size_t>(nodes), 1);
      for (size_t i = 0; i < lost.size(); i++) left[left.size() / 2 + i] = 1 - lost[i];
      std::vector<int> slots = ncclSlots(left);
      double busiest = 0;
      for (size_t slot = 0; slot < slots.size(); slot++) {
        busiest = std::max(busiest, loads[slot] / left[static_cast<size_t>(slots[slot])]);
      }
      CHECK_EQ(busiest, 2.0);  // as on whole nodes
      std::sort(slots.begin(), slots.end());
      CHECK(slots == counted(nodes));
    }
  }
}
