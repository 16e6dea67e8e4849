// Connections that break, ranks that leave and ranks that die, at each point of a switch.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "agree/world/behind_proxy.h"
#include "check.h"

using namespace r2cc::agree;
using namespace r2cc::agree::test;

namespace {

/// Runs `body` in another process, which is killed in the end. It must not have threads yet.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    body();
    for (;;) pause();
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void end(int signal = SIGKILL) {
    if (pid_ > 0) kill(pid_, signal), waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void stop() const { kill(pid_, SIGSTOP), waitpid(pid_, nullptr, WUNTRACED); }  // until none of its threads runs
  void resume() const { kill(pid_, SIGCONT); }

 private:
  pid_t pid_;
};

/// What ranks in several processes exchange, in memory that they share.
class SharedExchange {
 public:
  explicit SharedExchange(int ranks)
      : ranks_(ranks),
        board_(static_cast<Board*>(
            mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedExchange() { munmap(board_, sizeof(Board)); }
  SharedExchange(const SharedExchange&) = delete;
  SharedExchange& operator=(const SharedExchange&) = delete;

  std::vector<std::string> gather(int rank, const std::string& mine) {
    memcpy(board_->text[rank], mine.data(), mine.size());
    board_->size[rank] = mine.size();
    const bool came = eventually([&] {
      for (int i = 0; i < ranks_; i++) {
        if (board_->size[i] == 0) return false;
      }
      return true;
    });
    if (!came) throw std::runtime_error("not all ranks came");
    std::vector<std::string> all;
    all.reserve(static_cast<size_t>(ranks_));
    for (int i = 0; i < ranks_; i++) all.emplace_back(board_->text[i], board_->size[i]);
    return all;
  }
  std::atomic<uint64_t>& word() { return board_->word; }

 private:
  struct Board {
    std::atomic<size_t> size[8];
    char text[8][1024];
    std::atomic<uint64_t> word;
  };
  const int ranks_;
  Board* const board_;
};

std::unique_ptr<Agreement> make(SharedExchange& exchange, int rank, int ranks, Ms hold = Ms(600),
                                const std::function<void(const std::string&)>& log = {}) {
  Options options;
  options.rank = rank, options.ranks = ranks;
  options.gather = options.quiet = Ms(2);
  options.silence = Ms(150), options.closed = Ms(150), options.hold = hold;
  options.goodbye = Ms(100);
  options.promise = Ms(60000);
  options.log = log;
  return Agreement::make(options, [&](const std::string& mine) { return exchange.gather(rank, mine); }, joined, {});
}

/// Enters until it throws; what it said.
std::string enterUntilBroken(Agreement& agreement) {
  std::string what;
  CHECK(eventually([&] {
    try {
      agreement.enter(1);
    } catch (const AgreementBroken& broken) {
      what = broken.what();
    }
    return !what.empty();
  }));
  return what;
}

}  // namespace

TEST(agree_connections_that_break_lose_and_repeat_nothing) {
  Proxy proxy;
  World world(through(proxy));
  std::mt19937_64 random(std::random_device{}());
  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    while (!stop) {
      const uint64_t before = world[1].stats().reconnects;
      proxy.cut();
      (void)eventually([&] { return world[1].stats().reconnects > before; }, Ms(50));  // a late machine gets there, too
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 12000));
    }
  });
  for (uint64_t i = 1; i <= 8; i++) {
    world[static_cast<int>(i % 2)].report("r" + std::to_string(i));
    world.enterUntil(i);
  }
  stop = true;
  cutter.join();
  CHECK(world.consistent());
  CHECK(world[1].stats().reconnects > 3);
  CHECK_EQ(world[1].stats().refused, 0U);
}

TEST(agree_a_silent_connection_is_made_anew) {
  Proxy proxy;
  World world(through(proxy));
  CHECK(eventually([&] { return proxy.passed == 1; }));
  world[0].report("a");
  world.enterUntil(1);
  proxy.stalled = true;
  world[1].report("b");
  std::this_thread::sleep_for(Ms(400));  // both ends have noticed the silence
  CHECK_EQ(world[0].stats().switches, 1U);
  world.enterUpTo(world.entered(0) + 2000);  // nobody promised anything: nobody waits
  proxy.cut();
  proxy.stalled = false;
  world.enterUntil(2);
  CHECK(world.consistent());
  CHECK(world[0].stats().reconnects >= 1);
}

TEST(agree_a_promise_outlasts_a_lost_connection) {
  std::atomic<bool> prepared{false};
  std::atomic<int> down{0};
  Proxy proxy;
  Setup setup = through(proxy);
  // The commit for rank 1 gets lost: what goes down after a Prepare is held back.
  setup.prepare = [&](int rank, const std::string&) {
    if (rank == 0) prepared = true;
    return true;
  };
  proxy.spoil = [&](bool up, std::vector<uint8_t>&) {
    if (up || !prepared || down++ != 1) return;
    proxy.shut = true, proxy.cut();
  };
  World world(setup);
  world[0].report("x");
  CHECK(eventually([&] { return proxy.shut.load(); }));
  std::thread opener([&] {
    std::this_thread::sleep_for(Ms(200));
    proxy.shut = false;
  });
  world.enterUntil(1);
  opener.join();
  CHECK(world.consistent());
}

TEST(agree_a_rank_that_leaves_ends_switching_and_harms_nobody) {
  World world(3);
  world.enterUpTo(50);
  world.destroy(1);
  world[0].report("x");
  for (const int rank : {0, 2}) world.enter(rank, 3000);
  CHECK_EQ(world.seen(0).back(), "0");
  CHECK_EQ(world[2].stats().switches, 0U);
}

TEST(agree_leaving_in_the_middle_withdraws_for_all) {
  for (const int leaver : {2, 0}) {
    std::atomic<bool> inside{false}, go{false};
    Setup setup(3);
    setup.prepare = [&](int rank, const std::string&) {
      if (rank == 1) inside = true;
      return rank != 1 || eventually([&] { return go.load(); });
    };
    World world(setup);
    world[1].report("x");
    CHECK(eventually([&] { return inside.load(); }));
    const auto start = std::chrono::steady_clock::now();
    world.destroy(leaver);
    CHECK(std::chrono::steady_clock::now() - start < Ms(900));
    go = true;
    CHECK(eventually([&] { return world[1].stats().withdrawn >= 1; }));
    world.enter(1, 1000);
    CHECK_EQ(world.seen(1).back(), "0");
    CHECK(world[1].stats().lastWithdrawal.find("rank " + std::to_string(leaver) + " left") != std::string::npos);
  }
}

TEST(agree_splitting_and_destroying_leaves_the_others_alone) {
  World parent(4);
  parent.enterUpTo(10);
  parent[0].report("p");
  {
    World left(2), right(2);
    left[0].report("l"), right[1].report("r");
    left.enterUntil(1);
    left[1].report("l2");  // destroyed while it switches
    right.enterUntil(1);
    CHECK(left.consistent() && right.consistent());
  }
  parent.enterUntil(1);
  CHECK(parent.consistent());
  CHECK_EQ(parent.seen(3).back(), "1p");
}

TEST(agree_an_abort_ends_waiting_at_once_and_switching_for_all) {
  SharedExchange exchange(2);
  std::vector<std::unique_ptr<Agreement>> both(2);
  std::thread other([&] { both[1] = make(exchange, 1, 2); });
  both[0] = make(exchange, 0, 2);
  other.join();
  both[0]->enter(1);
  both[1]->abort();
  CHECK(enterUntilBroken(*both[1]).find("aborted") != std::string::npos);
  both[0]->report("x");
  for (int i = 0; i < 1000; i++) both[0]->enter(1);
  CHECK_EQ(both[0]->stats().switches, 0U);
}

TEST(agree_a_member_that_dies_is_named_and_stops_nobody) {
  SharedExchange exchange(3);
  Child dies([&] {
    static const auto agreement = make(exchange, 2, 3);
    (void)agreement;
  });
  Lines said;
  std::vector<std::unique_ptr<Agreement>> rest(2);
  std::thread other([&] { rest[1] = make(exchange, 1, 3); });
  rest[0] = make(exchange, 0, 3, Ms(600), said.taker());
  other.join();
  rest[0]->report("x");
  CHECK(eventually([&] { return rest[1]->stats().switches == 1; }));  // all are connected
  dies.end();
  CHECK(eventually([&] { return said.find("no switch until rank 2 (127.0.0.1, host ") != std::string::npos; }));
  CHECK(said.find(", and not back for ") != std::string::npos);
  rest[1]->report("y");
  for (int i = 0; i < 200; i++) rest[0]->enter(1), rest[1]->enter(1), std::this_thread::sleep_for(Ms(1));
  CHECK_EQ(rest[0]->enter(1).text, rest[1]->enter(1).text);
  CHECK_EQ(rest[0]->stats().switches, 1U);
}

TEST(agree_a_coordinator_that_dies_stops_nobody_who_promised_nothing) {
  SharedExchange exchange(2);
  Child dies([&] {
    static const auto agreement = make(exchange, 0, 2);
    static std::thread enqueuer([&] {
      for (;;) agreement->enter(1), usleep(100);
    });
    agreement->report("x");
  });
  Lines said;
  const auto mine = make(exchange, 1, 2, Ms(600), said.taker());
  CHECK(eventually([&] { return mine->stats().switches == 1; }));
  dies.end();
  CHECK(eventually([&] { return said.find("no switch until rank 0 (127.0.0.1, host ") != std::string::npos; }));
  // Its kernel refuses a new connection, or resets one that was just accepted.
  const std::string what = said.all();
  CHECK(what.find(": Connection refused,") != std::string::npos ||
        what.find(": Connection reset by") != std::string::npos);
  const std::string waited = ", and not reached for ";
  const size_t at = what.find(waited);
  CHECK(at != std::string::npos && std::stoi(what.substr(at + waited.size())) >= 150);  // Options::closed
  for (int i = 0; i < 1000; i++) mine->enter(1);
}

TEST(agree_a_rank_that_stands_still_is_waited_for_and_holds_nobody_up) {
  SharedExchange exchange(2);
  Child stands([&] {
    static const auto agreement = make(exchange, 1, 2);
    (void)agreement;
  });
  Lines said;
  const auto mine = make(exchange, 0, 2, /*hold=*/Ms(1000), said.taker());
  mine->report("x");
  CHECK(eventually([&] { return mine->stats().switches == 1; }));
  stands.stop();
  mine->report("y");
  const auto silent = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - silent < Ms(400)) mine->enter(1), std::this_thread::sleep_for(Ms(10));
  CHECK_EQ(mine->stats().switches, 1U);
  CHECK(eventually([&] { return mine->enter(1), said.find(": silent for ") != std::string::npos; }));
  CHECK_EQ(mine->stats().switches, 1U);
  stands.resume();
  CHECK(eventually([&] { return mine->enter(1).text == "y"; }));
}

TEST(agree_a_forked_child_can_end_and_make_its_own) {
  World world(2);
  world[0].report("x");
  world.enterUntil(1);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    world.destroy(0), world.destroy(1);
#ifndef __SANITIZE_THREAD__  // it knows no threads in a child of one that had some
    World own(2);
    own[0].report("y");
    own.enterUntil(1);
    if (!own.consistent()) _exit(1);
#endif
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK_EQ(status, 0);
  world[1].report("z");
  world.enterUntil(2);
  CHECK(world.consistent());
}
