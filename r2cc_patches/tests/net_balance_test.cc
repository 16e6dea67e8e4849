// Shares, weights, turns and measured capacities: arithmetic that both ends and every rank must agree on.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "balance.h"
#include "capacity.h"
#include "check.h"
#include "plan.h"

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

struct Feed {
  std::vector<std::unique_ptr<Path>> paths;
  Capacities capacities;
  int64_t now = msToNs(1000);
  explicit Feed(int count) {
    for (int i = 0; i < count; i++) {
      paths.push_back(std::make_unique<Path>(static_cast<uint8_t>(i), static_cast<uint8_t>(i), PathUse::Data));
    }
    (void)capacities.close(paths, now);
  }
  /// One window in which every path was busy for `busy` of it at `rate` bytes a ns; the last one for `last`.
  size_t window(const std::vector<double>& rates, double busy = 0.9, double last = -1) {
    now += kWindowNs;
    for (size_t i = 0; i < rates.size(); i++) {
      const double part = last >= 0 && i + 1 == rates.size() ? last : busy;
      const auto ns = static_cast<int64_t>(part * static_cast<double>(kWindowNs));
      capacities.add(*paths[i], static_cast<uint64_t>(rates[i] * static_cast<double>(ns)), ns);
    }
    return capacities.close(paths, now).size();
  }
};

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

TEST(net_capacity_finds_a_slow_nic) {
  Feed feed(4);
  size_t changes = 0;
  for (int i = 0; i < 30; i++) changes += feed.window({0.125, 0.0625, 0.125, 0.124});
  CHECK_EQ(changes, 1u);
  CHECK(std::abs(feed.paths[1]->capacity - 0.5) < 0.05);
  CHECK(feed.paths[0]->capacity == 1.0 && feed.paths[3]->capacity == 1.0);
  for (int i = 0; i < 30; i++) changes += feed.window({0.125, 0.12, 0.125, 0.124}, 0.5);
  CHECK_EQ(changes, 2u);
  CHECK(feed.paths[1]->capacity == 1.0);
}

TEST(net_capacity_ignores_jitter) {
  Feed feed(4);
  uint64_t random = 3;
  const auto noisy = [&] {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return 0.125 * (0.75 + 0.25 * static_cast<double>(random >> 40) / (1 << 24));  // up to a quarter lost, at random
  };
  size_t changes = 0;
  for (int i = 0; i < 3000; i++) {
    std::vector<double> rates{noisy(), noisy(), noisy(), noisy()};
    if (i % 50 == 0) rates[static_cast<size_t>(i / 50 % 4)] *= 0.1;  // a hiccup of one NIC
    if (i % 97 == 0) std::fill(rates.begin(), rates.end(), 0.01);    // everybody waits for one late rank
    changes += feed.window(rates);
  }
  CHECK_EQ(changes, 0u);
}

TEST(net_capacity_one_that_seems_too_fast_accuses_nobody) {
  Feed feed(4);
  for (int i = 0; i < 50; i++) CHECK_EQ(feed.window({0.125, 0.22, 0.125, 0.124}), 0u);
  Feed two(4);
  for (int i = 0; i < 50; i++) (void)two.window({0.125, 0.0625, 0.125, 0.0625});  // two of four at half rate
  CHECK(std::abs(two.paths[1]->capacity - 0.5) < 0.05 && std::abs(two.paths[3]->capacity - 0.5) < 0.05);
  CHECK(two.paths[0]->capacity == 1.0 && two.paths[2]->capacity == 1.0);
}

TEST(net_capacity_who_sends_a_chunk_now_and_then_is_not_slow) {
  Feed feed(4);
  for (int i = 0; i < 100; i++) CHECK_EQ(feed.window({0.125, 0.125, 0.125, 0.07}, 1.0, 0.6), 0u);
  Feed even(4);  // all carry the same and wait for somebody else, one more often than the others
  for (int i = 0; i < 100; i++) CHECK_EQ(even.window({0.125, 0.125, 0.125, 0.078}, 0.5, 0.8), 0u);
  // In step with the slow one: for it they wait.
  for (int i = 0; i < 10; i++) (void)even.window({0.125, 0.125, 0.125, 0.0625}, 0.5, 1.0);
  CHECK(std::abs(even.paths[3]->capacity - 0.5) < 0.05);
}

TEST(net_capacity_who_rests_and_then_bursts_accuses_nobody) {
  // A token bucket lets through at once what it saved while there was nothing to send: three that wait for the fourth
  // half of the time seem faster than their wire, which all four filled before.
  Feed feed(4);
  for (int i = 0; i < 20; i++) CHECK_EQ(feed.window({0.125, 0.125, 0.125, 0.125}, 1.0), 0u);
  for (int i = 0; i < 80; i++) CHECK_EQ(feed.window({0.163, 0.163, 0.163, 0.125}, 0.55, 1.0), 0u);
  // What they proved is no excuse for one that is slower than that.
  for (int i = 0; i < 10; i++) (void)feed.window({0.163, 0.163, 0.163, 0.0625}, 0.55, 1.0);
  CHECK(std::abs(feed.paths[3]->capacity - 0.5) < 0.05);
}

TEST(net_capacity_two_who_see_it_need_less_time) {
  Feed feed(4);
  const std::vector<double> slow{0.125, 0.0625, 0.125, 0.125};
  const auto windows = [&] {
    size_t until = 1;
    while (feed.window(slow) == 0) until++;
    return until;
  };
  CHECK(!feed.capacities.agree(*feed.paths[1], feed.now));  // nothing of it is known here
  for (int i = 0; i < 20; i++) CHECK_EQ(feed.window({0.125, 0.125, 0.125, 0.125}), 0u);
  CHECK(!feed.capacities.agree(*feed.paths[1], feed.now));  // it is well, as seen from here
  for (int i = 0; i < 60; i++) CHECK_EQ(feed.window({0.125, 0.125, 0.125, 0.125}), 0u);
  const size_t alone = windows();
  for (int i = 0; i < 40; i++) (void)feed.window({0.125, 0.125, 0.125, 0.125});
  CHECK(feed.paths[1]->capacity == 1.0);
  for (size_t i = 0; i + 2 < alone; i++) CHECK_EQ(feed.window(slow), 0u);
  CHECK(feed.capacities.agree(*feed.paths[1], feed.now));  // at once: two windows and more said so here
  CHECK(std::abs(feed.paths[1]->capacity - 0.5) < 0.05);
  for (int i = 0; i < 60; i++) (void)feed.window({0.125, 0.125, 0.125, 0.125});
  for (size_t i = 0; i + 4 < alone; i++) CHECK_EQ(feed.window(slow), 0u);
  CHECK(!feed.capacities.agree(*feed.paths[1], feed.now));  // too early
  CHECK(windows() < 4);
}

TEST(net_capacity_what_would_not_be_called_slow_is_not_held_for_ever) {
  Feed feed(4);
  for (int i = 0; i < 30; i++) (void)feed.window({0.125, 0.125, 0.125, 0.08});
  CHECK(feed.paths[3]->capacity < 0.7);
  size_t changes = 0;
  for (int i = 0; i < 30; i++) changes += feed.window({0.125, 0.125, 0.125, 0.105});  // 84 %: between slow and full
  CHECK(changes == 1 && feed.paths[3]->capacity == 1.0);
}

TEST(net_capacity_a_weak_path_that_has_nothing_to_do_is_given_more) {
  Feed feed(4);
  for (int i = 0; i < 60; i++) (void)feed.window({0.125, 0.125, 0.125, 0.002});
  CHECK(feed.paths[3]->capacity < 0.03);
  for (int i = 0; i < 100; i++) CHECK_EQ(feed.window({0, 0, 0, 0}, 0.0), 0u);  // nobody works: nothing is learnt
  int windows = 0;
  while (feed.paths[3]->capacity < 1.0 && windows++ < 200) (void)feed.window({0.125, 0.125, 0.125, 0.1}, 0.9, 0.02);
  CHECK(windows > 20 && windows <= 80);
  // One that is still slow is busy with the little it has, and stays where it is.
  for (int i = 0; i < 60; i++) (void)feed.window({0.125, 0.125, 0.125, 0.002});
  size_t changes = 0;
  for (int i = 0; i < 600; i++) changes += feed.window({0.125, 0.125, 0.125, 0.002});
  CHECK(changes == 0 && feed.paths[3]->capacity < 0.03);
}

namespace {

/// Four NICs under a collective: what the last one is given follows from what it is said to be able to carry.
struct Loop {
  Feed feed{4};
  double truth = 1.0;  // what it can carry
  double seems = 1.0;  // times as fast as it is, while it rests (a bucket's doing)
  size_t changes = 0;
  Path& path() { return *feed.paths[3]; }
  void window() {
    std::vector<Candidate> c = nics({1, 1, 1, 1});
    c[3].capacity = cautious(path().capacity);
    const double kept = shares(c, 3)[3];
    const double finish = std::max(kept / truth, 1 + (1 - kept) / 3);
    const double busy = kept / truth / finish;
    const double rate = 0.125 * truth * (busy < 0.95 ? seems : 1.0);
    changes += feed.window({0.125, 0.125, 0.125, rate}, (1 + (1 - kept) / 3) / finish, busy * truth * 0.125 / rate);
  }
  int64_t msUntil(bool degraded) {
    const int64_t start = feed.now;
    while ((path().capacity < 1.0) != degraded && feed.now - start < msToNs(60'000)) window();
    return (feed.now - start) / msToNs(1);
  }
};

}  // namespace

TEST(net_capacity_a_quarter_is_found_and_forgotten_soon) {
  for (const double truth : {0.1, 0.25, 0.5}) {
    Loop loop;
    for (int i = 0; i < 40; i++) loop.window();
    CHECK_EQ(loop.changes, 0u);
    loop.truth = truth;
    CHECK(loop.msUntil(true) <= 150 - kWindowNs / msToNs(1));  // it may begin just after a window did
    CHECK(std::abs(loop.path().capacity - truth) < 0.03 * truth);
    for (int i = 0; i < 200; i++) loop.window();
    CHECK_EQ(loop.changes, 1u);
    loop.truth = 1.0;
    CHECK(loop.msUntil(false) <= 700);
    for (int i = 0; i < 200; i++) loop.window();
    CHECK(loop.changes <= 5);  // it is given more in steps, and then stays
    CHECK(loop.path().capacity == 1.0);
  }
}

TEST(net_capacity_one_that_seems_better_than_it_is_costs_less_and_less) {
  Loop loop;
  loop.truth = 0.25;
  loop.seems = 2.5;
  const auto wrong = [&](int seconds) {
    size_t windows = 0;
    const auto count = static_cast<int>(seconds * msToNs(1000) / kWindowNs);
    for (int i = 0; i < count; i++) {
      loop.window();
      windows += loop.path().capacity > 0.4 ? 1 : 0;
    }
    return static_cast<double>(windows) / count;
  };
  (void)wrong(30);
  CHECK(wrong(60) < 0.03);
  loop.seems = 1.0;
  loop.truth = 1.0;
  CHECK(loop.msUntil(false) < 17'000);
}

TEST(net_capacity_one_that_nobody_waits_for_is_given_more) {
  // Well again, with so little to do that it mostly waits for acknowledgements: its rate says that it is slow.
  Feed feed(4);
  const std::vector<double> slow{0.125, 0.125, 0.125, 0.05};
  for (int i = 0; i < 20; i++) (void)feed.window({0.125, 0.125, 0.125, 0.125});
  for (int i = 0; i < 40; i++) (void)feed.window(slow);
  CHECK(std::abs(feed.paths[3]->capacity - 0.4) < 0.05);
  for (int i = 0; i < 20; i++) CHECK_EQ(feed.window(slow), 0u);  // it is waited for
  int windows = 0;
  while (feed.paths[3]->capacity < 1.0 && windows++ < 100) (void)feed.window({0.125, 0.125, 0.125, 0.06}, 0.9, 0.6);
  CHECK(windows * kWindowNs < msToNs(1000));
}

TEST(net_capacity_one_wrong_try_costs_one_pause) {
  // It seems better for a moment, and then falls in steps: each of them once doubled the pause, up to 4 s.
  Feed feed(4);
  const auto run = [&](double rate, int windows) {
    for (int i = 0; i < windows; i++) (void)feed.window({0.125, 0.125, 0.125, 0.125 * rate}, 1.0);
  };
  run(1.0, 20);
  run(0.25, 20);
  run(0.6, 8);
  CHECK(feed.paths[3]->capacity > 0.4);
  for (const double rate : {0.35, 0.2, 0.1, 0.05}) run(rate, 10);
  CHECK(feed.paths[3]->capacity < 0.06);
  int windows = 0;
  while (feed.paths[3]->capacity < 1.0 && windows++ < 1000) run(1.0, 1);
  CHECK(windows * kWindowNs < msToNs(700));
}

TEST(net_capacity_a_known_weakness_is_not_corrected_all_the_time) {
  Feed feed(4);
  uint64_t random = 7;
  size_t changes = 0;
  for (int i = 0; i < 20; i++) (void)feed.window({0.125, 0.125, 0.125, 0.125});
  for (int i = 0; i < 1000; i++) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const double noise = 0.7 + 0.6 * static_cast<double>(random >> 40) / (1 << 24);
    changes += feed.window({0.125, 0.125, 0.125, 0.25 * 0.125 * noise}, 1.0);
    (void)feed.capacities.agree(*feed.paths[3], feed.now);  // the other end says so, too
  }
  CHECK(changes <= 3);
  CHECK(std::abs(feed.paths[3]->capacity - 0.25) < 0.04);
}

TEST(net_capacity_what_is_over_in_a_moment_is_not_slow) {
  Feed feed(4);
  const std::vector<double> well{0.125, 0.125, 0.125, 0.125};
  for (int i = 0; i < 20; i++) CHECK_EQ(feed.window(well), 0u);
  for (int round = 0; round < 50; round++) {
    for (int i = 0; i < 4; i++) CHECK_EQ(feed.window({0.125, 0.03, 0.125, 0.125}, 0.8, 0.8), 0u);  // 100 ms
    for (int i = 0; i < 8; i++) CHECK_EQ(feed.window(well, 1.0), 0u);
    // A lost segment that TCP sends again after 200 ms: nothing gets through meanwhile.
    for (int i = 0; i < 10; i++) CHECK_EQ(feed.window({0.125, 0.125, 0, 0.125}, 1.0), 0u);
    for (int i = 0; i < 8; i++) CHECK_EQ(feed.window(well, 1.0), 0u);
  }
}

TEST(net_capacity_the_kernels_coarse_clock_accuses_nobody) {
  Feed feed(4);
  uint64_t random = 5;
  const auto ticks = [&] {  // busy for 80 % of the time, counted in ticks of 4 ms
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(3 + random % 3) * msToNs(4) / kWindowNs;
  };
  for (int i = 0; i < 4000; i++) {
    feed.now += kWindowNs;
    for (const auto& path : feed.paths) {
      const auto ns = static_cast<int64_t>(ticks() * static_cast<double>(kWindowNs));
      feed.capacities.add(*path, static_cast<uint64_t>(0.125 * 0.8 * static_cast<double>(kWindowNs)), ns);
    }
    CHECK_EQ(feed.capacities.close(feed.paths, feed.now).size(), 0u);
  }
}

TEST(net_capacity_needs_traffic) {
  Feed feed(4);
  for (int i = 0; i < 50; i++) CHECK_EQ(feed.window({0.125, 0.01, 0.125, 0.125}, 0.1), 0u);
}
