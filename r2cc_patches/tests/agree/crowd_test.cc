// Many ranks at rank 0's door: all at once, and with few descriptors.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agree/world/world.h"
#include "check.h"

using namespace r2cc;
using namespace r2cc::agree;
using namespace r2cc::agree::test;

TEST(agree_crowd_ranks_that_come_all_at_once_are_no_strangers) {
  Setup setup(200);
  setup.tune = [](Options& options) { options.gather = options.quiet = Ms(2); };
  World world(setup);
  world[199].report("x");
  world.enterUntil(1, [](int /*rank*/) { std::this_thread::sleep_for(Ms(10)); });  // they leave rank 0 a processor
  CHECK(world.consistent());
  CHECK_EQ(world[0].stats().refused, 0U);
}

#ifndef __SANITIZE_THREAD__  // it knows no threads in a child of one that had some

namespace {

constexpr int kRanks = 60;
constexpr rlim_t kFiles = 128;

/// Rank 0 and its ranks share a process that may open too few files: the rest of it still can.
bool leavesSomeFilesTo(World& world) {
  std::vector<Fd> mine;
  for (int i = 0; i < 16; i++) {
    mine.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!mine.back().valid()) return false;
    std::this_thread::sleep_for(Ms(20));
  }
  mine.clear();
  const bool said = eventually([&] { return world.logged().find("too few files may still be opened") != SIZE_MAX; });
  world.enterUpTo(200);  // no switch, and nobody waits
  return said && world.consistent() && world[0].stats().switches == 0;
}

}  // namespace

TEST(agree_crowd_rank_0_leaves_descriptors_to_the_program) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(30);
    const rlimit few{kFiles, kFiles};
    setrlimit(RLIMIT_NOFILE, &few);
    Setup setup(kRanks);
    setup.tune = [](Options& options) { options.gather = options.quiet = Ms(2), options.hold = Ms(1000); };
    World world(setup);
    world[1].report("x");
    _exit(leavesSomeFilesTo(world) ? 7 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 7);
}

#endif
