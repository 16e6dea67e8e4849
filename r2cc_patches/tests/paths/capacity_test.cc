// What paths can carry, by what is seen of them: windows of traffic as a network would give them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "check.h"
#include "paths/balance.h"
#include "paths/capacity.h"
#include "paths/feed.h"

using namespace r2cc;

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
    std::vector<Candidate> c(4, Candidate{1.0, 1.0, 0});
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
  for (const double truth : {0.1, 0.25, 1.0 / 3, 0.5}) {  // a third: RDMA over three times the round trip
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

TEST(net_capacity_the_other_end_found_it_whole) {
  // Wrong tries have made the pauses long. What is sent the other way is as fast as ever: the next try is now.
  const auto msToReturn = [](bool told) {
    Loop loop;
    loop.truth = 0.25;
    loop.seems = 4;  // as fast as the others: what it carries then says nothing
    for (int i = 0; i < 4000 || loop.path().capacity == 1.0; i++) loop.window();
    loop.seems = loop.truth = 1.0;
    if (told) loop.feed.capacities.hope(loop.path(), loop.feed.now);
    return loop.msUntil(false);
  };
  CHECK(msToReturn(false) > 2000);
  CHECK(msToReturn(true) < 500);
}

TEST(net_capacity_what_seems_more_than_at_a_wrong_try_waits_for_no_pause) {
  for (const double seems : {1.6, 2.0, 2.5, 3.0}) {
    Loop loop;
    loop.truth = 0.25;
    loop.seems = seems;
    for (int i = 0; i < 4000 || loop.path().capacity == 1.0; i++) loop.window();
    loop.seems = loop.truth = 1.0;
    CHECK(loop.msUntil(false) <= 700);
  }
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

TEST(net_capacity_where_all_fell_nobody_is_to_blame) {
  // Others fill all NICs alike: a NIC is far behind the others for half a second, then the next one.
  Feed feed(4);
  for (int i = 0; i < 20; i++) CHECK_EQ(feed.window({0.125, 0.125, 0.125, 0.125}, 1.0), 0u);
  for (int i = 0; i < 100; i++) {
    std::vector<double> rates(4, 0.04);
    const size_t unlucky = static_cast<size_t>(i / 25 % 4);
    rates[unlucky] = 0.01;
    CHECK_EQ(feed.window(rates, 1.0), 0u);
    CHECK(!feed.capacities.agree(*feed.paths[unlucky], feed.now));  // nor where the other end had the same bad luck
  }
  // One that stays behind is slow in its own right.
  size_t changes = 0;
  for (int i = 0; i < 120; i++) changes += feed.window({0.04, 0.04, 0.01, 0.04}, 1.0);
  CHECK_EQ(changes, 1u);
  CHECK(std::abs(feed.paths[2]->capacity - 0.25) < 0.05);
}

TEST(net_capacity_siblings_that_rest_did_not_fall) {
  // One NIC is slow, and paces the job: its siblings carry a chunk now and then, whose way there and back counts.
  Feed feed(4);
  for (int i = 0; i < 20; i++) CHECK_EQ(feed.window({0.125, 0.125, 0.125, 0.125}, 1.0), 0u);
  int windows = 0;
  while (feed.paths[3]->capacity == 1.0 && windows++ < 200) (void)feed.window({0.06, 0.06, 0.06, 0.02}, 0.4, 1.0);
  CHECK(windows * kWindowNs < msToNs(300));
}

TEST(net_capacity_a_faster_nic_beside_others_says_nothing_of_them) {
  // Of 200 and 100 Gbit/s: the fast one always works. One of the others becomes slow.
  Feed feed(4);
  const std::vector<double> mixed{0.25, 0.125, 0.125, 0.125};
  for (int i = 0; i < 60; i++) CHECK_EQ(feed.window(mixed, 1.0, 0.85), 0u);
  int windows = 0;
  while (feed.paths[3]->capacity == 1.0 && windows++ < 200) (void)feed.window({0.25, 0.125, 0.125, 0.03}, 0.9, 1.0);
  CHECK(windows * kWindowNs < msToNs(300));
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

TEST(net_capacity_few_packets_a_window_accuse_nobody) {
  // 40 Mbit/s: one packet of 64 KiB a window, or two or three. A healthy job lost 8 % to 56 false moves in 45 s.
  Feed feed(8);
  uint64_t random = 7;
  std::vector<double> owed(8, 0.0);
  const auto carried = [&](size_t path, double rate) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    owed[path] +=
        rate * static_cast<double>(kWindowNs) / (64 << 10) * (0.5 + static_cast<double>(random >> 40) / (1 << 24));
    const double packets = std::floor(owed[path]);
    owed[path] -= packets;
    return packets * (64 << 10) / static_cast<double>(kWindowNs);
  };
  const auto window = [&](double last) {
    std::vector<double> rates;
    for (size_t path = 0; path < 8; path++) rates.push_back(carried(path, path == 7 ? last : 0.005));
    return feed.window(rates, 1.0);
  };
  size_t changes = 0;
  for (int i = 0; i < 4000; i++) changes += window(0.005);
  CHECK_EQ(changes, 0u);
  int windows = 0;  // a quarter of it is still found, if late: siblings' luck looks like a full switch for two seconds
  while (feed.paths[7]->capacity == 1.0 && windows++ < 200) (void)window(0.00125);
  CHECK(windows * kWindowNs < msToNs(2200));
  CHECK(feed.paths[7]->capacity < 0.5);
}

TEST(net_capacity_a_light_job_before_a_heavy_one_delays_nothing) {
  Feed feed(4);
  for (int i = 0; i < 120; i++) CHECK_EQ(feed.window({0.0005, 0.0005, 0.0002, 0.0005}, 0.5), 0u);
  int windows = 0;
  while (feed.paths[1]->capacity == 1.0 && windows++ < 200) (void)feed.window({0.125, 0.0625, 0.125, 0.125}, 1.0);
  CHECK(windows * kWindowNs < msToNs(300));
}

TEST(net_capacity_a_known_weakness_that_grows_is_known_soon) {
  Feed feed(4);
  for (int i = 0; i < 200; i++) (void)feed.window({0.125, 0.0625, 0.125, 0.125}, 1.0);
  CHECK(std::abs(feed.paths[1]->capacity - 0.5) < 0.05);
  int windows = 0;
  while (feed.paths[1]->capacity > 0.45 && windows++ < 200) (void)feed.window({0.125, 0.03125, 0.125, 0.125}, 1.0);
  CHECK(windows * kWindowNs < msToNs(150));
}

TEST(net_capacity_needs_traffic) {
  Feed feed(4);
  for (int i = 0; i < 50; i++) CHECK_EQ(feed.window({0.125, 0.01, 0.125, 0.125}, 0.1), 0u);
}
