// Where the enqueuing thread meets promises and decisions.
#include "agree/gate.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "agree/world/world.h"
#include "check.h"

using namespace r2cc::agree;
using namespace r2cc::agree::test;

namespace {

constexpr int64_t kWindow = 50000000;

void enter(Gate& gate, uint64_t groups) {
  for (uint64_t i = 0; i < groups; i++) gate.enter(i);
}

}  // namespace

TEST(agree_gate_nothing_is_entered_beyond_a_promise) {
  Gate gate(0, "here", {});
  enter(gate, 1000);
  const Promise promise = gate.promise(1200, kWindow);
  CHECK(promise.last >= 1200);
  CHECK(promise.entered <= 1000);
  std::atomic<uint64_t> entered{1000};
  std::thread enqueuer([&] {
    while (entered < promise.last + 100) gate.enter(0), entered++;
  });
  CHECK(eventually([&] { return gate.stats().waits == 1; }));
  std::this_thread::sleep_for(Ms(20));
  CHECK_EQ(entered.load(), promise.last);
  gate.withdraw();
  enqueuer.join();
  CHECK_EQ(gate.stats().waits, 1U);
  CHECK(gate.stats().waitedNs >= 20000000);
}

TEST(agree_gate_a_promise_lies_beyond_what_may_be_entered_already) {
  Gate gate(0, "here", {});
  enter(gate, 1000);
  CHECK(gate.promise(5, kWindow).last > 1000);
  CHECK(gate.ahead(kWindow) > 1000);
}

TEST(agree_gate_the_margin_follows_the_pace) {
  Gate fast(0, "here", {}), slow(0, "here", {});
  const auto start = std::chrono::steady_clock::now();
  uint64_t groups = 0;
  while (std::chrono::steady_clock::now() - start < Ms(60)) {
    enter(fast, 1000), groups += 1000;  // many: it is fast also where it seldom gets the processor
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  CHECK(fast.promise(0, kWindow).last > groups + 100);  // about 50 ms of it, while that is its pace
  for (int i = 0; i < 4; i++) enter(slow, 1), std::this_thread::sleep_for(Ms(30));
  CHECK(slow.promise(0, kWindow).last < 12);
}

/// Who replays CUDA graphs enters nothing. What it captures next is to follow what was decided meanwhile, all of it.
TEST(agree_gate_who_enters_nothing_for_long_promises_nothing_ahead) {
  if (!r2cc::fenceAllThreads()) return CHECK(true);  // forbidden here: what is leased stays leased
  Gate gate(0, "here", {});
  enter(gate, 4);  // at once, so that more were leased
  std::this_thread::sleep_for(Ms(1100));
  CHECK_EQ(gate.ahead(kWindow), 4U);
  const Promise promise = gate.promise(4, kWindow);
  CHECK_EQ(promise.last, 4U);
  gate.commit({1, promise.last + 1, "a"});
  CHECK_EQ(gate.enter(5).text, "a");
}

TEST(agree_gate_a_decision_holds_from_its_first_group) {
  Gate gate(0, "here", {});
  enter(gate, 10);
  const uint64_t first = gate.promise(50, 0).last + 1;
  gate.commit({1, first, "a"});
  CHECK_EQ(gate.pending(), 1U);
  const uint64_t second = gate.promise(first, 0).last + 1;
  gate.commit({2, second, "b"});
  for (uint64_t group = 11; group <= second + 40; group++) {
    const Decision& decision = gate.enter(group);
    CHECK_EQ(decision.text, group < first ? "" : group < second ? "a" : "b");
  }
  CHECK_EQ(gate.pending(), 0U);
}

/// A rank that replays CUDA graphs enters nothing while NICs go and come: what it captures next follows the newest.
TEST(agree_gate_a_newer_decision_takes_the_place_of_one_that_was_not_in_force_yet) {
  Gate gate(0, "here", {});
  enter(gate, 10);
  uint64_t first = 0;
  for (uint64_t epoch = 1; epoch <= 20; epoch++) {
    first = gate.promise(0, 0).last + 1;
    gate.commit({epoch, first, std::to_string(epoch)});
    CHECK(gate.pending() <= 1);
  }
  uint64_t epoch = 0;
  for (uint64_t group = 11; group <= first; group++) {
    epoch = gate.enter(group).epoch;
    CHECK(epoch == 0 || epoch == 20);
  }
  CHECK_EQ(epoch, 20U);
  // One that holds from an earlier group on stays before it.
  const uint64_t near = gate.promise(first + 10, 0).last + 1;
  gate.commit({21, near, "21"});
  gate.commit({22, gate.promise(near, 0).last + 1, "22"});
  CHECK_EQ(gate.pending(), 2U);
  while (epoch == 20) epoch = gate.enter(1).epoch;
  CHECK_EQ(epoch, 21U);
}

TEST(agree_gate_a_failure_ends_every_call) {
  Gate gate(0, "here", {});
  enter(gate, 100);
  gate.fail({2, "10.0.0.2", "it died"});
  gate.fail({1, "10.0.0.1", "later"});
  for (int i = 0; i < 3; i++) {
    const std::string what = THROWN(AgreementBroken, gate.enter(1));
    CHECK_EQ(what, "the ranks can agree on nothing any more: rank 2 (10.0.0.2): it died");
  }
}

TEST(agree_gate_a_failure_ends_waiting) {
  Gate gate(0, "here", {});
  const Promise promise = gate.promise(1, 0);
  enter(gate, promise.last);
  std::thread other([&] {
    (void)eventually([&] { return gate.stats().waits == 1; });
    gate.fail({2, "10.0.0.2", "it died"});
  });
  (void)THROWN(AgreementBroken, gate.enter(1));
  other.join();
}

TEST(agree_gate_an_abort_ends_waiting_and_nothing_else_does) {
  std::atomic<bool> aborted{false};
  Gate gate(3, "here", [&] { return aborted.load(); });
  const Promise promise = gate.promise(1, 0);
  enter(gate, promise.last);
  std::thread other([&] {
    std::this_thread::sleep_for(Ms(300));
    aborted = true;
  });
  const auto start = std::chrono::steady_clock::now();
  const std::string what = THROWN(AgreementBroken, gate.enter(1));
  CHECK(std::chrono::steady_clock::now() - start >= Ms(290));
  CHECK(what.find("rank 3 (here): aborted while it waited at group " + std::to_string(promise.last + 1)) !=
        std::string::npos);
  other.join();
  (void)THROWN(AgreementBroken, gate.enter(1));
}

// The one race there is: a promise while the other thread enters as fast as it can.
TEST(agree_gate_promises_race_with_a_thread_that_never_pauses) {
  Gate gate(0, "here", {});
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> entered{0};
  bool exact = true;
  std::thread enqueuer([&] {
    uint64_t epoch = 0;
    for (uint64_t group = 1; !stop; group++) {
      const Decision& decision = gate.enter(group);
      entered.store(group, std::memory_order_relaxed);
      if (decision.epoch == epoch) {
        exact &= decision.first <= group;
        continue;
      }
      exact &= decision.epoch > epoch && decision.first == group;
      epoch = decision.epoch;
    }
  });
  bool kept = true;
  for (uint64_t epoch = 1; epoch <= 2000; epoch++) {
    const uint64_t last = gate.promise(0, 0).last;
    kept &= entered.load(std::memory_order_relaxed) <= last;
    if (epoch % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));  // it runs into the promise
    kept &= entered.load(std::memory_order_relaxed) <= last;
    gate.commit({epoch, last + 1, "x"});
  }
  CHECK(eventually([&] { return gate.pending() == 0; }));
  stop = true;
  enqueuer.join();
  CHECK(exact);
  CHECK(kept);
  CHECK(gate.stats().waits > 0);
}

TEST(agree_gate_costs_next_to_nothing) {
  Gate gate(0, "here", {});
  enter(gate, 1000);
  constexpr uint64_t kGroups = 100000;
  double best = 1e9;
  for (int i = 0; i < 100; i++) {  // short ones: some are not disturbed, however busy the machine
    const auto start = std::chrono::steady_clock::now();
    enter(gate, kGroups);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kGroups);
  }
  std::fprintf(stderr, "enter(): %.2f ns\n", best);
  CHECK(best < 100);  // also unoptimised and under a sanitizer
}
