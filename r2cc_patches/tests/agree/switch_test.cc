// Switches between ranks that are all well: real sockets, real threads.
#include "agree/net/socket.h"
#include "agree/world/world.h"
#include "check.h"

using namespace r2cc::agree;
using namespace r2cc::agree::test;

TEST(agree_all_ranks_switch_at_the_same_group) {
  World world(3);
  world.enterUpTo(100);
  world[2].report("nic 1 is gone");
  world.enterUntil(1);
  CHECK(world.consistent());
  for (int rank = 0; rank < 3; rank++) CHECK_EQ(world.seen(rank).back(), "1nic 1 is gone");
  CHECK_EQ(world.seen(0)[99], "0");
}

/// As ranks that replay CUDA graphs: they entered a few groups at once, to capture them, and nothing since.
TEST(agree_ranks_that_enter_nothing_switch_at_the_next_group) {
  if (!r2cc::fenceAllThreads()) return CHECK(true);  // forbidden here: some groups later
  World world(3);
  for (int rank = 0; rank < 3; rank++) world.enter(rank, 4);
  std::this_thread::sleep_for(Ms(1100));
  world[2].report("nic 1 is gone");
  for (int rank = 0; rank < 3; rank++) CHECK(eventually([&] { return world[rank].stats().switches == 1; }));
  for (int rank = 0; rank < 3; rank++) world.enter(rank, 4);
  for (int rank = 0; rank < 3; rank++) {
    CHECK_EQ(world.seen(rank)[3], "0");
    CHECK_EQ(world.seen(rank)[4], "1nic 1 is gone");
    CHECK_EQ(world[rank].stats().waits, 0U);
  }
}

TEST(agree_one_rank_alone_switches_too) {
  World world(1);
  world[0].report("x");
  CHECK(eventually([&] {
    world.enter(0);
    return world.seen(0).back() == "1x";
  }));
}

TEST(agree_ranks_meet_over_ipv6_too) {
  Setup setup(2);
  setup.tune = [](Options& options) { options.bindAddress = "::1"; };
  try {
    (void)listenOn(parseAddress("::1", 0));
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "skipped: %s\n", error.what());
    return CHECK(true);
  }
  World world(setup);
  world[1].report("x");
  world.enterUntil(1);
  CHECK(world.consistent());
}

TEST(agree_nothing_reported_nothing_changes) {
  std::atomic<int> asked{0};
  Setup setup(2);
  setup.decide = [&](const std::vector<std::string>&) {
    asked++;
    return std::string();
  };
  World world(setup);
  world.enterUpTo(1000);
  CHECK_EQ(asked.load(), 0);
  world[1].report("x");
  CHECK(eventually([&] { return asked == 1; }));
  world[1].report("x");  // the same again is no news
  world.enterUpTo(2000);
  CHECK_EQ(world[0].stats().switches, 0U);
  CHECK_EQ(asked.load(), 1);
  CHECK_EQ(world.seen(1).back(), "0");
}

TEST(agree_a_second_change_in_the_middle_waits_for_the_first) {
  std::atomic<bool> inside{false}, go{false};
  Setup setup(3);
  setup.prepare = [&](int rank, const std::string&) {
    if (rank == 1) inside = true;
    return rank != 1 || eventually([&] { return go.load(); });
  };
  World world(setup);
  world[0].report("a");
  CHECK(eventually([&] { return inside.load(); }));
  world[2].report("b");  // while rank 1 still prepares for the first
  world.enterUpTo(500);  // nobody has promised anything: nobody waits
  CHECK_EQ(world[0].stats().waits, 0U);
  go = true;
  world.enterUntil(2);
  CHECK(world.consistent());
  CHECK_EQ(world.seen(1).back(), "2a+b");
}

TEST(agree_who_is_far_ahead_takes_all_along) {
  World world(3);
  world.enter(1, 20000);  // the others have entered nothing
  world[0].report("x");
  CHECK(eventually([&] { return world[0].stats().switches == 1 && world[2].stats().switches == 1; }));
  CHECK(eventually([&] {
    world.enter(1, 100);
    return world.seen(1).back() == "1x";
  }));
  world.enterUpTo(world.entered(1));
  CHECK(world.consistent());
  const auto& seen = world.seen(0);
  CHECK(seen[19999] == "0");
}

TEST(agree_who_is_far_behind_follows) {
  World world(3);
  world.enter(0, 5000), world.enter(1, 5000);
  world[1].report("x");
  CHECK(eventually([&] { return world[2].stats().switches == 1; }));
  CHECK(eventually([&] {
    world.enter(0, 100), world.enter(1, 100);
    return world.seen(0).back() == "1x" && world.seen(1).back() == "1x";
  }));
  world.enterUpTo(world.entered(0));
  CHECK(world.consistent());
}

TEST(agree_who_cannot_prepare_stops_the_switch_for_all) {
  Setup setup(3);
  setup.prepare = [](int rank, const std::string&) -> bool {
    if (rank == 2) throw std::runtime_error("no such NIC");
    return true;
  };
  World world(setup);
  world[0].report("x");
  CHECK(eventually([&] { return world[1].stats().withdrawn == 1; }));
  world.enterUpTo(3000);
  CHECK_EQ(world[0].stats().switches, 0U);
  CHECK(world.logged().find("no switch: rank 2 cannot: no such NIC") != std::string::npos);
}

TEST(agree_different_histories_stop_the_switch_and_say_both) {
  World world(2);
  world.enter(0, 64);
  for (int i = 0; i < 64; i++) world[1].enter(7);
  world[0].report("x");
  CHECK(eventually([&] { return world[1].stats().withdrawn == 1; }));
  const std::string said = world.logged();
  CHECK(said.find("at group 64 rank 0 has history 0000000000048d00 and 0 captured, rank 1 has history "
                  "0000000000000007 and 0 captured") != std::string::npos);
  CHECK_EQ(world[0].stats().switches, 0U);
}

TEST(agree_different_captures_stop_the_switch) {
  World world(2);
  world.enter(0, 64);
  for (int i = 0; i < 64; i++) {
    world.enter(1);
    if (i == 3) world[1].captured();
  }
  world[0].report("x");
  CHECK(eventually([&] { return world[1].stats().withdrawn == 1; }));
  CHECK(world.logged().find("and 1 captured") != std::string::npos);
}

TEST(agree_flapping_reports_are_few_decisions_and_the_newest_wins) {
  std::atomic<int> asked{0};
  Setup setup(2);
  setup.tune = [](Options& options) { options.gather = options.quiet = Ms(50); };
  setup.decide = [&](const std::vector<std::string>& reports) {
    asked++;
    return joined(reports);
  };
  World world(setup);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20000; i++) world[1].report("state " + std::to_string(i));
  CHECK(eventually([&] {
    world.enter(0), world.enter(1);
    return world.seen(1).back().find("state 19999") != std::string::npos;
  }));
  const auto took = std::chrono::steady_clock::now() - start;  // until rank 0 has heard them all
  CHECK(asked <= 3 + took / Ms(50));
  world.enterUpTo(std::max(world.entered(0), world.entered(1)));
  CHECK(world.consistent());
}

TEST(agree_two_communicators_in_opposite_orders_do_not_deadlock) {
  World first(2), second(2);
  first[0].report("a"), second[0].report("b");
  std::atomic<bool> stop{false};
  const auto turn = [&](int rank, World& one, World& other) {
    while (!stop) one.enter(rank), other.enter(rank);
  };
  std::thread zero([&] { turn(0, first, second); });
  std::thread one([&] { turn(1, second, first); });
  CHECK(eventually([&] { return first[1].stats().switches > 0 && second[1].stats().switches > 0; }));
  for (int i = 0; i < 20; i++) {
    const uint64_t before = first[0].stats().switches;
    first[1].report("a" + std::to_string(i)), second[0].report("b" + std::to_string(i));
    CHECK(eventually([&] { return first[0].stats().switches > before; }));
  }
  stop = true;
  zero.join(), one.join();
  CHECK(first.consistent());
  CHECK(second.consistent());
}

TEST(agree_ranks_of_one_thread_are_entered_one_after_the_other) {
  World world(4);
  for (int round = 0; round < 3000; round++) {
    if (round % 500 == 0) world[round / 500 % 4].report("r" + std::to_string(round));
    for (int rank = 3; rank >= 0; rank--) world.enter(rank);
  }
  CHECK(eventually([&] {
    for (int i = 0; i < 200; i++) {
      for (int rank = 0; rank < 4; rank++) world.enter(rank);
    }
    return world.seen(0).back()[0] != '0';
  }));
  CHECK(world.consistent());
}

TEST(agree_64_ranks_in_threads) {
  World world(64);
  world[63].report("x");
  world.enterUntil(1, [](int rank) { std::this_thread::sleep_for(std::chrono::microseconds(200 + rank * 4)); });
  CHECK(world.consistent());
}
