// Shares, weights and turns: arithmetic that both ends and every rank must agree on.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "check.h"
#include "lanes/plan.h"
#include "paths/balance.h"

using namespace r2cc;

namespace {

bool near(double a, double b) { return std::abs(a - b) < 1e-9; }

std::vector<Candidate> nics(const std::vector<double>& capacities) {
  std::vector<Candidate> out;
  out.reserve(capacities.size());
  for (const double c : capacities) out.push_back({c, 1.0, 0});
  return out;
}

/// What each NIC carries when every NIC is home to one connection: its finishing time is load / capacity.
std::vector<double> loads(const std::vector<double>& capacities) {
  std::vector<double> out(capacities.size(), 0.0);
  for (size_t home = 0; home < capacities.size(); home++) {
    const std::vector<double> s = shares(nics(capacities), home);
    for (size_t i = 0; i < s.size(); i++) out[i] += s[i];
  }
  return out;
}

LanePtr lane(uint32_t id) {
  static Path path(0, 0, PathUse::Data);
  return std::make_shared<Lane>(nullptr, id, true, &path, 0, InnerNet{}, nullptr);
}

}  // namespace

TEST(net_shares_of_a_healthy_nic_stay_home) {
  const std::vector<double> s = shares(nics({1, 1, 1, 1}), 2);
  CHECK(near(s[2], 1.0) && near(s[0] + s[1] + s[3], 0.0));
}

TEST(net_shares_leave_what_nccl_chose) {
  std::vector<Candidate> c = nics({1, 1, 1, 1});
  c[2].demand = c[3].demand = 0;  // two NICs that nobody uses are none of our business
  const std::vector<double> s = shares(c, 0);
  CHECK(near(s[0], 1.0));
}

TEST(net_shares_of_a_lost_nic_are_equal) {
  const std::vector<double> s = shares(nics({1, 0, 1, 1}), 1);
  CHECK(near(s[0], 1.0 / 3) && near(s[1], 0) && near(s[2], 1.0 / 3) && near(s[3], 1.0 / 3));
  const std::vector<double> two = shares(nics({1, 0, 0, 1}), 1);
  CHECK(near(two[0], 0.5) && near(two[3], 0.5));
}

TEST(net_shares_finish_together) {
  // One NIC at half rate: everything takes 4 / 3.5 of the time, on every NIC (issue 3's bound).
  const std::vector<double> capacities = {1, 0.5, 1, 1};
  const std::vector<double> load = loads(capacities);
  for (size_t i = 0; i < load.size(); i++) CHECK(near(load[i] / capacities[i], 4 / 3.5));
  CHECK(near(std::accumulate(load.begin(), load.end(), 0.0), 4.0));
}

TEST(net_shares_use_nearer_nics_first) {
  std::vector<Candidate> c = nics({0, 1, 1, 1});
  c[1].distance = 1, c[2].distance = 2, c[3].distance = 1;
  const std::vector<double> s = shares(c, 0);
  CHECK(near(s[1], 0.5) && near(s[3], 0.5) && near(s[2], 0));  // a far NIC would drag the others
  c[1].capacity = c[3].capacity = 0;
  CHECK(near(shares(c, 0)[2], 1.0));  // unless there is no other
}

TEST(net_shares_when_nothing_is_left) {
  const std::vector<double> s = shares(nics({0, 0}), 0);
  CHECK(near(s[0], 0) && near(s[1], 0));
  CHECK(weights(s) == std::vector<uint8_t>({0, 0}));
}

TEST(net_weights_are_close_and_small) {
  CHECK(weights({0, 1.0 / 3, 1.0 / 3, 1.0 / 3}) == std::vector<uint8_t>({0, 1, 1, 1}));
  CHECK(weights({1, 0}) == std::vector<uint8_t>({1, 0}));
  uint64_t random = 9;
  for (int round = 0; round < 2000; round++) {
    std::vector<double> s(1 + round % 16);
    for (double& x : s) random = random * 6364136223846793005U + 1, x = 0.01 + static_cast<double>(random >> 40);
    const double sum = std::accumulate(s.begin(), s.end(), 0.0);
    for (double& x : s) x /= sum;
    const std::vector<uint8_t> w = weights(s);
    const int total = std::accumulate(w.begin(), w.end(), 0);
    CHECK(total <= kPeriod && *std::min_element(w.begin(), w.end()) >= 1);
    for (size_t i = 0; i < s.size(); i++) CHECK(std::abs(w[i] / static_cast<double>(total) - s[i]) < 0.06);
  }
}

TEST(net_weights_give_nobody_much_more_than_its_share) {
  // What everybody waits for is the one with most too much. A NIC at a quarter of its rate once had 3 % too much.
  CHECK(weights({4.0 / 13, 3.0 / 13, 3.0 / 13, 3.0 / 13}) == std::vector<uint8_t>({4, 3, 3, 3}));
  for (double capacity = 0.1; capacity < 0.95; capacity += 0.01) {
    const std::vector<double> s = shares(nics({capacity, 1, 1, 1}), 0);
    const std::vector<uint8_t> w = weights(s);
    const int total = std::accumulate(w.begin(), w.end(), 0);
    if (w[0] == total) continue;
    CHECK(w[0] < 1.05 * s[0] * total);
    for (size_t i = 1; i < s.size(); i++) CHECK(static_cast<double>(w[i]) / total < s[i] + 0.012);
  }
}

TEST(net_shares_of_a_slow_nic_leave_slack) {
  // It is never what everybody waits for, and what that costs its siblings is little beside the optimum.
  for (const size_t count : {4, 8}) {
    for (double capacity = 0.1; capacity < 0.95; capacity += 0.05) {
      std::vector<Candidate> c = nics(std::vector<double>(count, 1.0));
      c[0].capacity = cautious(capacity);
      const std::vector<double> s = shares(c, 0);
      const double optimum = static_cast<double>(count) / (static_cast<double>(count) - 1 + capacity);
      CHECK(1 + s[1] < 1.025 * optimum);
      CHECK(s[0] < 1.0 - 0.1 * (1 - capacity) ? s[0] / capacity < 1 + s[1] : true);
    }
  }
}

TEST(net_turns_are_fair_and_spread) {
  CHECK(interleave({1, 1, 1}) == std::vector<uint8_t>({0, 1, 2}));
  const std::vector<uint8_t> order = interleave({5, 1, 1});
  CHECK_EQ(order.size(), 7u);
  CHECK_EQ(std::count(order.begin(), order.end(), 0), 5);
  CHECK(order[0] == 0 && order[1] != order[2]);  // never all turns of one lane in a row
  size_t longest = 0;
  size_t run = 0;
  for (const uint8_t turn : order) longest = std::max(longest, run = turn == 0 ? run + 1 : 0);
  CHECK(longest <= 3);
}

TEST(net_plan_steps_and_substitution) {
  Plan plan;
  CHECK(plan.laneFor(0) == nullptr && !plan.broken());
  const LanePtr a = lane(1), b = lane(2), c = lane(3), spare = lane(4);
  plan.add(PlanStep(0, {{a, 1}}));
  plan.add(PlanStep(10, {{a, 1}, {b, 1}, {c, 2}}));
  CHECK(plan.laneFor(9) == a.get());
  int count[5] = {};
  for (uint64_t k = 10; k < 50; k++) count[plan.laneFor(k)->id]++;
  CHECK(count[1] == 10 && count[2] == 10 && count[3] == 20);
  const Lane* before[40];
  for (uint64_t k = 10; k < 50; k++) before[k - 10] = plan.laneFor(k);
  b->state = LaneState::Closed;
  CHECK(plan.broken());
  plan.substitute(spare);
  CHECK(!plan.broken());
  for (uint64_t k = 10; k < 50; k++) {  // nobody but the lost lane's messages moves
    CHECK(plan.laneFor(k) == (before[k - 10] == b.get() ? spare.get() : before[k - 10]));
  }
  plan.trim(9);
  CHECK(plan.size() == 2 && plan.only() == nullptr);
  CHECK(c->posted.push(3));
  plan.trim(10);  // c is in the next step as well: what is posted there holds nothing up
  CHECK_EQ(plan.size(), 1u);
}

TEST(net_plan_forgets_a_step_that_never_began) {
  Plan plan;
  const LanePtr a = lane(1), b = lane(2), c = lane(3);
  plan.add(PlanStep(0, {{a, 1}}));
  plan.add(PlanStep(10, {{b, 1}}));
  plan.add(PlanStep(6, {{c, 1}}));  // the receiver had posted none below 6
  CHECK_EQ(plan.size(), 2u);
  CHECK(plan.laneFor(5) == a.get() && plan.laneFor(6) == c.get() && plan.laneFor(10) == c.get() && !plan.has(b.get()));
  plan.add(PlanStep(6, {{b, 1}}));
  CHECK(plan.size() == 2 && plan.laneFor(6) == b.get());
  plan.trim(6);
  CHECK(plan.only() == b.get());
}

TEST(net_plan_keeps_a_step_until_its_lanes_are_drained) {
  Plan plan;
  CHECK(plan.only() == nullptr);
  const LanePtr a = lane(1), b = lane(2), c = lane(3);
  plan.add(PlanStep(0, {{a, 1}}));
  CHECK(plan.only() == a.get());
  plan.add(PlanStep(10, {{b, 1}}));
  CHECK(a->posted.push(9));
  plan.trim(20);
  CHECK(plan.size() == 2 && plan.only() == nullptr);
  a->posted.pop();
  plan.trim(20);
  CHECK(plan.size() == 1 && plan.only() == b.get());
  b->state = LaneState::Closed;
  plan.substitute(c);
  CHECK(plan.only() == c.get());
  plan.clear();
  CHECK(plan.only() == nullptr);
}
