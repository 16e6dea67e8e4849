// Rings in another order, alone and beside chains, as NCCL asks for them: counted once more, NIC by NIC.
#include <algorithm>
#include <cmath>
#include <random>

#include "check.h"
#include "counted.h"
#include "planner/shapes/cycles.h"
#include "requests.h"

using namespace r2cc::planner;
using r2cc::check::counted;

namespace {

constexpr double kClose = 1e-9;

Request asNcclAsks(int nodes, int nics, const std::string& op) {
  Request request;
  for (int i = 0; i < nodes; i++) request.nodes.push_back(r2cc::check::planNode(i, 1, nics, 1));
  request.op = op;
  request.bytes = uint64_t{64} << 30;
  request.cycles = cycles(nodes, nodes - 1);
  for (int nic = 0; nic < nics; nic++) request.homes.push_back(nic);
  r2cc::check::bare(request.cost);
  request.cost.chunkBytes = 1;
  request.cost.evenRails = false;
  return request;
}

void checkParts(const Request& request, const Plan& plan) {
  std::vector<bool> used(request.cycles.size() * request.homes.size(), false);
  double sum = 0;
  for (const Part& part : plan.parts) {
    sum += part.share;
    CHECK(part.cycle >= 0 && !part.homes.empty());
    for (const int home : part.homes) {
      const size_t channel = static_cast<size_t>(part.cycle) * request.homes.size() + static_cast<size_t>(home);
      CHECK(!used[channel]);
      used[channel] = true;
    }
  }
  CHECK(std::abs(sum - 1) < kClose);
}

/// NCCL lays an AllGather on channels that stand next to each other, alike on each.
void checkOneRange(const Request& request, const Plan& plan) {
  for (size_t i = 0; i < plan.parts.size(); i++) {
    CHECK(plan.parts[i].kind == Kind::Ring);
    CHECK_EQ(plan.parts[i].cycle, plan.parts[0].cycle + static_cast<int>(i));
    CHECK(plan.parts[i].homes.size() == request.homes.size());
    CHECK(std::abs(plan.parts[i].share * static_cast<double>(plan.parts.size()) - 1) < kClose);
  }
}

Request neighbours(int nics, const std::string& op) {
  Request request = asNcclAsks(4, nics, op);
  request.nodes[1].nics.front().capacity = 0;
  request.nodes[2].nics.back().capacity = 0;
  return request;
}

}  // namespace

TEST(plan_of_neighbours_that_lost_different_rails_has_a_ring_in_another_order) {
  // Balanced, what the two exchange has to go over the rails that both have: twice the healthy ring's time.
  for (const char* op : {"allgather", "reducescatter"}) {
    const Request request = neighbours(4, op);
    const Plan found = plan(request);
    CHECK(found.schedule == Schedule::Reranked);
    checkParts(request, found);
    checkOneRange(request, found);
    CHECK(std::abs(found.candidates.front().predictedUs.value_or(0) / found.healthyUs - 2) < kClose);
    CHECK(std::abs(found.predictedUs / found.healthyUs - 4.0 / 3) < kClose);  // the bound
    CHECK(std::abs(counted(request, found) - 4.0 / 3) < kClose);
    CHECK(found.thresholdBytes.has_value());
    // Of 4 x 2 each has one NIC: nothing is faster than twice.
    const Plan two = plan(neighbours(2, op));
    CHECK(two.predictedUs >= two.healthyUs * 2 * (1 - kClose));
  }
}

TEST(plan_of_neighbours_that_lost_different_rails_mixes_rings_and_chains) {
  const struct {
    int nics;
    double most;
  } cases[] = {{2, 1.34}, {4, 1.18}, {8, 1.1}};
  for (const auto& [nics, most] : cases) {
    const Request request = neighbours(nics, "allreduce");
    const Plan found = plan(request);
    CHECK(found.schedule == Schedule::Chain);
    checkParts(request, found);
    CHECK(counted(request, found) > 0);
    CHECK(counted(request, found) <= most);
    CHECK(std::abs(found.predictedUs / found.healthyUs - counted(request, found)) < 1e-3);
  }
}

TEST(plan_in_another_order_is_never_slower_than_balance_nor_faster_than_can_be) {
  std::mt19937 random(7);
  const auto drawn = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (int round = 0; round < 24; round++) {
    const int nodes = 3 + drawn(6), nics = 2 + drawn(3);
    for (const char* op : {"allreduce", "allgather", "reducescatter"}) {
      Request request = asNcclAsks(nodes, nics, op);
      for (int faults = 1 + drawn(4); faults > 0; faults--) {
        request.nodes[static_cast<size_t>(drawn(nodes))].nics[static_cast<size_t>(1 + drawn(nics - 1))].capacity = 0;
      }
      request.nodes[static_cast<size_t>(drawn(nodes))].nics[0].capacity = drawn(2);  // never two without any rail
      if (std::any_of(request.nodes.begin(), request.nodes.end(), [](const Node& node) {
            return std::all_of(node.nics.begin(), node.nics.end(), [](const Nic& nic) { return nic.capacity == 0; });
          })) {
        continue;
      }
      const Plan found = plan(request);
      const double balance = found.candidates.front().predictedUs.value_or(0);
      CHECK(found.predictedUs >= found.boundUs * (1 - kClose));
      CHECK(found.predictedUs <= balance * (1 + kClose));
      if (found.schedule == Schedule::Ring) continue;
      CHECK(found.predictedUs <= balance * (1 - request.cost.margin));
      if (found.schedule == Schedule::Reranked) checkOneRange(request, found);
      if (std::any_of(found.parts.begin(), found.parts.end(), [](const Part& part) { return part.cycle < 0; }))
        continue;
      checkParts(request, found);
      const double times = counted(request, found);
      if (times > 0) CHECK(times <= found.predictedUs / found.healthyUs * (1 + 1e-3));
    }
  }
}

TEST(plan_of_a_gather_is_held_against_what_nccl_would_run) {
  Request request = neighbours(4, "allgather");
  const std::vector<double> slow(kLargestPower + 1, 1);
  // Its ring is held back by the two neighbours, which NCCL's table does not know.
  request.rivals = {{"RING/SIMPLE", Flow::Ring, 1, 10, slow}};
  CHECK(plan(request).schedule == Schedule::Reranked);
  // What leaves and enters each node once at most is as fast as the bound: nothing beats it.
  request.rivals.push_back({"PAT/SIMPLE", Flow::Direct, 1, 1, std::vector<double>(kLargestPower + 1, 0.5)});
  CHECK(plan(request).schedule == Schedule::Ring);
  // A ring in another order runs on the same kernel: no faster than the table has that.
  request.rivals = {{"RING/SIMPLE", Flow::Ring, 1, 10, std::vector<double>(kLargestPower + 1, 1e12)}};
  const Plan found = plan(request);
  CHECK(found.schedule == Schedule::Ring && !found.thresholdBytes);
}

TEST(plan_of_a_ring_alone_stays_in_the_executors_order) {
  // The ring on balanced paths is NCCL's own: its neighbours are those of the request, whatever they lost.
  Request request = neighbours(4, "allreduce");
  request.schedule = Schedule::Ring;
  const Plan found = plan(request);
  CHECK_EQ(found.parts.size(), size_t{1});
  CHECK(found.parts[0].order == (std::vector<int>{0, 1, 2, 3}) && found.parts[0].cycle < 0);
  CHECK(std::abs(found.predictedUs / found.healthyUs - 2) < kClose);
  request.cycles.clear();  // who may choose takes another order
  CHECK(plan(request).predictedUs < found.healthyUs * 1.34);
}
