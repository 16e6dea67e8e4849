// The network over which ranks agree is lost for long: that ends no job, and a promise is never left without an error.
#include "agree/world/behind_proxy.h"
#include "check.h"

using namespace r2cc;
using namespace r2cc::agree;
using namespace r2cc::agree::test;

TEST(agree_a_network_that_is_lost_for_long_stops_nobody_and_switches_when_it_is_back) {
  Proxy proxy;
  Setup setup = through(proxy);
  const auto tune = setup.tune;
  Lines said;
  setup.tune = [&](Options& options) {
    tune(options);
    options.closed = Ms(100), options.hold = Ms(200);
    options.log = options.warn = said.taker();
  };
  World world(setup);
  world[0].report("a");
  world.enterUntil(1);
  for (const bool refused : {false, true}) {
    const int before = said.count("no switch until rank ");
    proxy.stalled = !refused, proxy.shut = refused;
    if (refused) proxy.cut();
    world[1].report(refused ? "c" : "b");
    CHECK(eventually([&] { return said.count("no switch until rank ") >= before + 2; }));  // both ends
    std::this_thread::sleep_for(Ms(400));
    world.enterUpTo(world.entered(0) + 2000);                  // throws where a rank was given up
    CHECK(said.count("no switch until rank ") <= before + 3);  // rank 0 says twice of one that closed
    proxy.cut();
    proxy.stalled = proxy.shut = false;
    world.enterUntil(refused ? 3 : 2);
    CHECK(world.consistent());
  }
}

TEST(agree_each_reset_is_waited_for_from_its_own_time) {
  Proxy proxy;
  Setup setup = through(proxy);
  Lines said;
  setup.tune = [&](Options& options) {
    options.gather = options.quiet = Ms(2);
    options.closed = Ms(2000);
    if (options.rank == 1) options.log = said.taker();
  };
  World world(setup);
  world[0].report("a");
  world.enterUntil(1);
  for (const uint64_t reset : {1U, 2U}) {
    if (reset == 2) std::this_thread::sleep_for(Ms(2500));  // longer ago than `closed`
    proxy.cut();
    CHECK(eventually([&] { return world[1].stats().reconnects == reset; }));
  }
  CHECK_EQ(said.count("no switch until"), 0);
}

TEST(agree_to_leave_takes_no_time_where_nobody_is_reached) {
  Proxy proxy;
  Setup setup = through(proxy);
  const auto tune = setup.tune;
  Lines said;
  setup.tune = [&](Options& options) {
    tune(options), options.hold = Ms(200);
    if (options.rank == 1) options.log = said.taker(), options.goodbye = Ms(60000);
  };
  World world(setup);
  world[0].report("a");
  world.enterUntil(1);
  const int before = said.count("no switch until rank 0");
  proxy.stalled = true;
  CHECK(eventually([&] { return said.count("no switch until rank 0") > before; }));
  const auto start = std::chrono::steady_clock::now();
  world.destroy(1);
  CHECK(std::chrono::steady_clock::now() - start < Ms(30000));
}

/// What is optional ends no job: a rank that cannot listen, or has no address, meets the others and says why. Then all
/// know it, and it is said to users once.
TEST(agree_a_rank_that_cannot_take_part_fails_nothing) {
  for (const int who : {0, 1, 2}) {
    for (const std::string address : {"203.0.113.1", "no address"}) {  // of another host; none at all
      const bool listens = who == 0 || address == "no address";
      if (!listens) continue;  // where it calls from is the kernel's to choose
      Lines warned, others, logged;
      Setup setup(3);
      setup.tune = [&](Options& options) {
        options.gather = options.quiet = Ms(2);
        if (options.rank == who) options.bindAddress = address;
        options.warn = (options.rank == 0 ? warned : others).taker();
        options.log = logged.taker();
      };
      World world(setup);
      world[1].report("x");
      world.enterUpTo(500);
      CHECK(world.consistent());
      const std::string why = address == "no address" ? "not a numeric address" : "the agreement cannot listen on";
      const std::string said = "rank " + std::to_string(who) + " (" + address + ", host ";
      CHECK_EQ(warned.count("no switch ever: " + said), 1);
      CHECK_EQ(warned.count(std::string(") cannot take part: ") + why), 1);
      CHECK_EQ(logged.count("no switch ever: " + said), 2);
      CHECK_EQ(others.all(), "");
      for (int rank = 0; rank < 3; rank++) CHECK_EQ(world[rank].never(), world[0].never());
      CHECK_EQ(world[0].never().find(said), 0U);
      CHECK_EQ(world[0].stats().switches, 0U);
      world[who].abort();
      (void)THROWN(AgreementBroken, world[who].enter(1));
    }
  }
}

TEST(agree_of_several_ranks_that_cannot_take_part_the_first_is_named) {
  Setup setup(4);
  setup.tune = [](Options& options) {
    if (options.rank > 0) options.cannot = std::string(5000, 'x');
  };
  World world(setup);
  world.enterUpTo(50);
  CHECK_EQ(world[3].never(), world[0].never());
  CHECK_EQ(world[0].never().find("rank 1 ("), 0U);
  CHECK(world[0].never().size() < 2000);
  CHECK(world[0].never().find("x; nor can 2 more") != std::string::npos);
  CHECK_EQ(world[1].stats().waits, 0U);
}

TEST(agree_a_link_local_address_is_called_through_an_interface_of_one_s_own) {
  const Address from = parseAddress("fe80::2%lo", 0);
  CHECK_EQ(addressFor("fe80::1%there", 7, from).text(), "[fe80::1%lo]:7");
  CHECK_EQ(addressFor("fe80::1", 7, from).text(), "[fe80::1%lo]:7");
  CHECK_EQ(addressFor("2001:db8::1", 7, from).text(), "[2001:db8::1]:7");
  CHECK_EQ(addressFor("192.0.2.1", 7, from).text(), "192.0.2.1:7");
  CHECK_EQ(addressFor("192.0.2.1", 7, parseAddress("192.0.2.2", 0)).text(), "192.0.2.1:7");
}

/// Of many communicators with a rank that stands still, none waits for its own farewell: the last one waits for all.
TEST(agree_communicators_that_end_do_not_wait_one_after_the_other) {
  constexpr int kWorlds = 8;
  constexpr Ms kGoodbye(1000);
  Proxy proxies[kWorlds];
  std::vector<std::unique_ptr<World>> worlds;
  for (Proxy& proxy : proxies) {
    Setup setup = through(proxy);
    setup.tune = [&](Options& options) { options.gather = options.quiet = Ms(2), options.goodbye = kGoodbye; };
    worlds.push_back(std::make_unique<World>(setup));
    (*worlds.back())[1].report("a");
    worlds.back()->enterUntil(1);
    proxy.stalled = true;
  }
  const auto start = std::chrono::steady_clock::now();
  for (const auto& world : worlds) world->destroy(0);
  CHECK(std::chrono::steady_clock::now() - start < 3 * kGoodbye);
  proxies[0].stalled = false;  // it is said although that rank's agreement is gone
  CHECK(eventually([&] { return (*worlds[0])[1].stats().lastWithdrawal == "rank 0 left"; }, kGoodbye / 2));
  worlds.clear();
  CHECK(std::chrono::steady_clock::now() - start < (kWorlds - 1) * kGoodbye);
}

TEST(agree_an_aborted_rank_waits_for_nobody_at_its_end) {
  Proxy proxy;
  Setup setup = through(proxy);
  std::atomic<bool> aborted{false};
  setup.tune = [&](Options& options) {
    options.gather = options.quiet = Ms(2), options.goodbye = Ms(60000);
    options.aborted = [&] { return aborted.load(); };
  };
  auto world = std::make_unique<World>(setup);
  (*world)[1].report("a");
  world->enterUntil(1);
  proxy.stalled = aborted = true;
  const auto start = std::chrono::steady_clock::now();
  world.reset();
  CHECK(std::chrono::steady_clock::now() - start < Ms(20000));
}

namespace {

/// Whether one of these frames, which go in the clear, is of that type.
bool anyIs(Type type, const std::vector<uint8_t>& frames) {
  constexpr size_t kBeforeType = kLengthBytes + 16;
  for (size_t at = 0; at + kBeforeType < frames.size();) {
    if (frames[at + kBeforeType] == static_cast<uint8_t>(type)) return true;
    uint32_t length = 0;
    Reader reader(frames.data() + at, kLengthBytes);
    reader(length);
    at += kLengthBytes + length;
  }
  return false;
}

/// How nothing comes down to a rank any more.
enum class Lost : uint8_t { All, AllButGreetings };

/// Rank 1 promises; the commit, and all after it, is lost. `back`: until it is reached again, before it comes to its
/// promise. What it then throws.
std::string thrownAfterAPromise(Lost lost, bool back) {
  std::atomic<bool> bad{false};
  Proxy proxy;
  Setup setup = through(proxy);
  const auto tune = setup.tune;
  Lines said;
  setup.tune = [&](Options& options) {
    tune(options), options.closed = Ms(100), options.hold = Ms(300), options.promise = Ms(60000);
    if (options.rank == 1) options.log = said.taker();
  };
  bool committed = false;  // the proxy's alone
  proxy.spoil = [&](bool up, std::vector<uint8_t>& bytes) {
    if (!up && !committed && anyIs(Type::Commit, bytes)) {
      committed = bad = true;
      proxy.shut = lost == Lost::All;
      bytes.clear(), proxy.cut();
    }
    if (bad && lost == Lost::AllButGreetings && up && bytes.size() != kHelloBytes) bytes.clear(), proxy.cut();
  };
  World world(setup);
  world[0].report("x");
  CHECK(eventually([&] { return bad.load(); }));
  CHECK(eventually([&] { return said.find("no switch until rank 0") != std::string::npos; }));
  CHECK_EQ(world[0].stats().switches, 1U);
  CHECK_EQ(world[1].stats().switches, 0U);
  if (back) {
    bad = proxy.shut = false;
    CHECK(eventually([&] { return world[1].stats().switches == 1; }));
  }
  std::string what;
  try {
    for (int i = 0; i < 1000; i++) world[1].enter(1);
  } catch (const AgreementBroken& broken) {
    what = broken.what();
  }
  world.enter(0, 2000);
  return what;
}

}  // namespace

TEST(agree_who_promised_and_hears_no_end_of_it_stops_with_an_error) {
  for (const Lost lost : {Lost::All, Lost::AllButGreetings}) {
    const std::string what = thrownAfterAPromise(lost, /*back=*/false);
    CHECK(what.find("rank 0 (127.0.0.1, host ") != std::string::npos);
    CHECK(what.find(", in the middle of a switch (R2CC_HOLD_MS)") != std::string::npos);
  }
}

TEST(agree_who_hears_the_end_before_it_comes_to_its_promise_goes_on) {
  CHECK_EQ(thrownAfterAPromise(Lost::All, /*back=*/true), "");
}
