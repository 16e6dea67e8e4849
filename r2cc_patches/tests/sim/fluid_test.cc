// The fluid engine: rates, who waits for whom, links that change, streams that go another way.
#include <cmath>

#include "check.h"
#include "sim/network/fluid.h"

using namespace r2cc::sim;

namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b)); }

Task task(double bytes, std::vector<Use> uses) {
  Task out;
  out.bytes = bytes;
  out.uses = std::move(uses);
  return out;
}

}  // namespace

TEST(sim_rates_are_max_min_fair) {
  // Two share link 0; one of them meets link 1, the other takes what it leaves.
  const Task slow = task(1, {{0, 1}, {1, 1}});
  const Task fast = task(1, {{0, 1}});
  const std::vector<double> rates = fairRates({10, 2}, {&slow, &fast});
  CHECK(near(rates[0], 2));
  CHECK(near(rates[1], 8));
}

TEST(sim_rates_go_by_weight_and_what_a_byte_puts_on_a_link) {
  Task heavy = task(1, {{0, 1}});
  heavy.weight = 3;
  Task twice = task(1, {{0, 2}});
  Task wasteful = task(1, {{0, 1}});
  wasteful.overhead = 2;
  CHECK(near(fairRates({10}, {&heavy, &twice})[0], 6));
  CHECK(near(fairRates({10}, {&heavy, &twice})[1], 2));
  CHECK(near(fairRates({10}, {&wasteful, &wasteful})[1], 2.5));
}

TEST(sim_who_ends_leaves_its_share_to_the_others) {
  const Flowed found = flow({{10}, {task(10, {{0, 1}}), task(30, {{0, 1}})}, {}, {}});
  CHECK(near(found.endUs[0], 2));
  CHECK(near(found.endUs[1], 4));
  CHECK(near(found.linkBytes[0], 40));
}

TEST(sim_tasks_wait_for_others_and_for_their_delay) {
  Task last = task(10, {{0, 1}});
  last.after = {0};
  last.delayUs = 5;
  const Flowed found = flow({{10}, {task(10, {{0, 1}}), last}, {}, {}});
  CHECK(near(found.endUs[1], 7));
}

TEST(sim_a_link_that_is_gone_holds_its_tasks_until_it_is_back) {
  const Flowed found = flow({{10}, {task(100, {{0, 1}})}, {{4, 0, 0}, {7, 0, 10}}, {}});
  CHECK(near(found.wholeUs, 13));
  CHECK(near(found.stillUs[0], 3));
  CHECK_EQ(flow({{10}, {task(100, {{0, 1}})}, {{4, 0, 0}}, {}}).wholeUs, kNever);
}

TEST(sim_a_stream_goes_another_way_and_sends_some_again) {
  const Flowed found = flow({{10, 5}, {task(100, {{0, 1}})}, {{4, 0, 0}}, {{6, 0, {{1, 1}}, 5}}});
  CHECK(near(found.wholeUs, 6 + 65.0 / 5));
  CHECK(near(found.linkBytes[0], 40));
  CHECK(near(found.linkBytes[1], 65));
}

TEST(sim_a_stream_that_has_ended_goes_nowhere) {
  const Flowed found = flow({{10, 5}, {task(10, {{0, 1}})}, {}, {{6, 0, {{1, 1}}, 5}}});
  CHECK(near(found.wholeUs, 1));
  CHECK_EQ(found.linkBytes[1], 0.0);
}

TEST(sim_nothing_to_do_takes_no_time) {
  CHECK_EQ(flow({{10}, {task(0, {})}, {}, {}}).wholeUs, 0.0);
  CHECK_EQ(flow({{10}, {}, {}, {}}).wholeUs, 0.0);
}
