// A process that ends, or forks, while it holds communicators.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "agree/world/world.h"
#include "check.h"

#ifndef __SANITIZE_THREAD__  // it knows no threads in a child of one that had some, nor threads that outlive main()

using namespace r2cc::agree;
using namespace r2cc::agree::test;

namespace {

constexpr int kCode = 7;

/// The exit code of a process that does this; -1 when it was killed, by its alarm for one.
int codeOf(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    body();
    _exit(99);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// In the middle of it: connected, switched once, and the next change is on its way.
std::unique_ptr<World> inUse(const Setup& setup) {
  auto world = std::make_unique<World>(setup);
  (*world)[0].report("x");
  world->enterUntil(1);
  (*world)[1].report("y");
  return world;
}

/// As a program that keeps its communicators in a static object.
std::unique_ptr<World>& kept() {
  static std::unique_ptr<World> world;
  return world;
}

}  // namespace

TEST(agree_life_a_process_that_closes_nothing_ends_with_its_own_code) {
  for (const bool prepares : {false, true}) {
    Setup setup(3);
    if (prepares) {
      setup.prepare = [](int, const std::string& text) {
        if (text == "x+y") std::this_thread::sleep_for(Ms(200));  // still at it when the process ends
        return Prepared(true);
      };
    }
    CHECK_EQ(codeOf([&] {
               const World* const world = inUse(setup).release();
               (void)world;
               std::exit(kCode);
             }),
             kCode);
    CHECK_EQ(codeOf([&] {
               kept() = inUse(setup);
               std::exit(kCode);
             }),
             kCode);
  }
}

TEST(agree_life_a_child_s_end_is_nothing_to_its_parent) {
  CHECK_EQ(codeOf([] {
             kept() = inUse(3);
             World& world = *kept();
             for (int i = 0; i < 8; i++) {
               CHECK_EQ(codeOf([] { std::exit(kCode); }), kCode);  // with all that ends at an exit
             }
             world[2].report("z");
             world.enterUntil(world[0].stats().switches + 1);
             const bool fine = world.consistent() && world[0].stats().reconnects == 0 && world[0].stats().refused == 0;
             std::exit(fine ? kCode : 1);
           }),
           kCode);
}

/// Whatever it calls, at whatever moment it was forked: its parent's locks may be held for ever.
TEST(agree_life_a_child_that_goes_on_gets_an_error_and_waits_for_nobody) {
  World world(3);
  world[0].report("x");
  world.enterUntil(1);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    for (int i = 0; !stop; i++) world[i % 3].report(std::to_string(i)), (void)world[i % 3].stats();
  });
  for (int i = 0; i < 50; i++) {
    CHECK_EQ(codeOf([&] {
               world[1].report("child");
               (void)world[1].stats();
               world[2].abort();
               std::string thrown;
               for (int group = 0; group < 100 && thrown.empty(); group++) {
                 try {
                   world[1].enter(1);
                 } catch (const AgreementBroken& broken) {
                   thrown = broken.cause();
                 }
               }
               for (int rank = 0; rank < 3; rank++) world.destroy(rank);
               _exit(thrown == "this is a forked child, and no rank" ? kCode : 1);
             }),
             kCode);
  }
  stop = true;
  busy.join();
  const uint64_t before = world[0].stats().switches;
  world[0].report("last");
  world.enterUntil(before + 1);  // nobody aborted
  CHECK(world.consistent());
}

#endif
