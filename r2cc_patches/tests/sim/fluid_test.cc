// The fluid engine: rates, who waits for whom, links that change, streams that go another way; and random cases beside
// a second way to know the answer.
#include <algorithm>
#include <cmath>
#include <random>

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

/// Where no link carries more than it can, and each task passes a full link on which nobody is at a higher level, rates
/// are max-min fair: nobody can be given more without taking from who has no more (Bertsekas and Gallager 1992, 6.5.2).
bool fair(const std::vector<double>& capacities, const std::vector<const Task*>& tasks,
          const std::vector<double>& rates) {
  std::vector<double> load(capacities.size()), most(capacities.size());
  for (size_t i = 0; i < tasks.size(); i++) {
    for (const Use& use : tasks[i]->uses) {
      const auto link = static_cast<size_t>(use.link);
      load[link] += rates[i] * tasks[i]->overhead * use.perByte;
      most[link] = std::max(most[link], rates[i] / tasks[i]->weight);
    }
  }
  bool all = true;
  for (size_t link = 0; link < load.size(); link++) all &= load[link] <= capacities[link] * (1 + 1e-9);
  for (size_t i = 0; i < tasks.size(); i++) {
    all &= std::any_of(tasks[i]->uses.begin(), tasks[i]->uses.end(), [&](const Use& use) {
      const auto link = static_cast<size_t>(use.link);
      return near(load[link], capacities[link]) && rates[i] / tasks[i]->weight >= most[link] * (1 - 1e-9);
    });
  }
  return all;
}

/// As slow and as plain as can be: all rates anew at every event. `fairAlways`: what fair() says of each.
std::vector<double> endsOf(const Fluid& fluid, bool& fairAlways) {
  std::vector<double> capacities = fluid.capacities, left, ends(fluid.tasks.size(), kNever);
  for (const Task& task : fluid.tasks) left.push_back(task.bytes);
  for (double now = 0; now < kNever;) {
    double until = kNever;
    for (const Change& change : fluid.changes) {
      if (change.atUs <= now) capacities[static_cast<size_t>(change.link)] = change.capacity;
      if (change.atUs > now) until = std::min(until, change.atUs);
    }
    std::vector<const Task*> tasks;
    std::vector<size_t> which;
    for (size_t i = 0; i < left.size(); i++) {
      double begins = 0;
      for (const int before : fluid.tasks[i].after) begins = std::max(begins, ends[static_cast<size_t>(before)]);
      begins += fluid.tasks[i].delayUs;
      if (begins > now) until = std::min(until, begins);
      if (begins > now || left[i] <= 0) continue;
      tasks.push_back(&fluid.tasks[i]);
      which.push_back(i);
    }
    const std::vector<double> rates = fairRates(capacities, tasks);
    fairAlways &= fair(capacities, tasks, rates);
    for (size_t at = 0; at < which.size(); at++) {
      if (rates[at] > 0) until = std::min(until, now + left[which[at]] / rates[at]);
    }
    for (size_t at = 0; at < which.size() && until < kNever; at++) {
      double& mine = left[which[at]];
      mine -= rates[at] * (until - now);
      if (mine <= 1e-9 * tasks[at]->bytes) mine = 0, ends[which[at]] = until;
    }
    now = until;
  }
  return ends;
}

/// Up to five tasks on four links, some of which wait for others, and up to two changes.
Fluid anyFluid(std::mt19937& random) {
  const auto one = [&](std::vector<double> of) { return of[random() % of.size()]; };
  Fluid fluid;
  for (int link = 0; link < 4; link++) fluid.capacities.push_back(one({1, 2, 5, 7}));
  const size_t count = 1 + random() % 5;
  for (size_t i = 0; i < count; i++) {
    Task made = task(10 * one({0.5, 1, 2, 3}), {});
    made.weight = one({0.5, 1, 2, 3});
    made.overhead = one({1, 1, 1.25});
    for (int link = 0; link < 4; link++) {
      if (random() % 2 == 0) made.uses.push_back({link, one({0.5, 1, 2, 3})});
    }
    if (made.uses.empty()) made.uses.push_back({0, 1});
    if (i > 0 && random() % 2 == 0) made.after = {static_cast<int>(random() % i)};
    made.delayUs = one({0, 0, 1.5});
    fluid.tasks.push_back(made);
  }
  for (const double at : {2.0, 3.7}) {
    if (random() % 2 == 0) fluid.changes.push_back({at, static_cast<int>(random() % 4), one({0, 1, 4})});
  }
  return fluid;
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

TEST(sim_fairness_is_told_from_what_is_not) {
  const Task slow = task(1, {{0, 1}, {1, 1}}), fast = task(1, {{0, 1}});
  CHECK(fair({10, 2}, {&slow, &fast}, {2, 8}));
  CHECK(!fair({10, 2}, {&slow, &fast}, {1, 9}));
  CHECK(!fair({10, 2}, {&slow, &fast}, {2, 7}));
  CHECK(!fair({10, 2}, {&slow, &fast}, {2, 9}));
}

TEST(sim_random_fluids_end_when_a_plain_reckoning_says) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; i++) {
    const Fluid fluid = anyFluid(random);
    const Flowed found = flow(fluid);
    bool fairAlways = true;
    const std::vector<double> ends = endsOf(fluid, fairAlways);
    CHECK(fairAlways);
    std::vector<double> carried(4);
    for (size_t task = 0; task < ends.size(); task++) {
      CHECK(ends[task] == found.endUs[task] || std::abs(ends[task] - found.endUs[task]) <= 1e-6 * ends[task]);
      for (const Use& use : fluid.tasks[task].uses)
        carried[static_cast<size_t>(use.link)] += fluid.tasks[task].bytes * use.perByte;
    }
    for (size_t link = 0; link < 4 && found.wholeUs < kNever; link++) CHECK(near(found.linkBytes[link], carried[link]));
  }
}
