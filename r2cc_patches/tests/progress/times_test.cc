// Stand-stills are measured at the events, whenever the lines are written.
#include "check.h"
#include "player.h"
#include "watched.h"

#include "base/clock.h"

using namespace r2cc;
using namespace r2cc::play;

namespace {

void pass(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// The longest of all lines, with its begin.
std::pair<long long, long long> longest(const Watched& watched, const std::string& what) {
  std::pair<long long, long long> most;
  for (const Line& line : watched.lines("traffic")) {
    most = std::max(most, {line.number(what + "_us"), line.number(what + "_began_ns")});
  }
  return most;
}

}  // namespace

TEST(a_short_stall_is_seen_as_such) {
  const Watched watched;
  Player<V6> player;
  void* task = player.launch(1);
  void* op = player.op(task, true);
  player.stop(task);
  for (int i = 0; i < 100; i++) player.wholeStep(op, true, 1);
  void* step = player.step(op);
  player.moved(op, step, true, 1);
  const int64_t began = nowNs();
  pass(7);
  player.stop(step), player.stop(op);
  const int64_t ended = nowNs();
  player.finalize();
  for (const char* what : {"stall", "net_stall"}) {
    const auto [us, at] = longest(watched, what);
    CHECK(us >= 7000);
    CHECK(us <= (ended - began) / 1000 + 5000);  // a busy machine may stop us before `began`
    CHECK(at <= began + 2000 && at + us * 1000 <= ended + 2000);
  }
}

TEST(a_wait_for_the_gpu_is_not_the_networks) {
  const Watched watched;
  Player<V6> player;
  void* task = player.launch(1);
  void* op = player.op(task, true);
  player.stop(task);
  void* step = player.step(op);
  pass(300);
  player.moved(op, step, true, 1);
  player.stop(step), player.stop(op);
  player.finalize();
  CHECK(longest(watched, "stall").first >= 300000);
  CHECK(longest(watched, "net_stall").first < 200000);
}

TEST(idle_time_is_no_stall) {
  const Watched watched;
  Player<V6> player;
  player.collective(1, 1, 1);
  pass(300);
  player.collective(1, 1, 1);
  player.finalize();
  CHECK(longest(watched, "stall").first < 200000);
  long long still = 0;  // a line may have been written since the second began
  for (const Line& line : watched.lines("traffic")) still = std::max(still, line.number("still_us"));
  CHECK(still >= 200000);
}

TEST(a_stall_that_lasts_is_written_again_and_again) {
  const Watched watched;
  Player<V6> player;
  void* task = player.launch(1);
  void* op = player.op(task, true);
  player.stop(task);
  void* step = player.step(op);
  player.moved(op, step, true, 1);
  CHECK(within(10000, [&] { return watched.lines("traffic").size() >= 4; }));
  player.finalize();
  const auto lines = watched.lines("traffic");
  for (size_t i = 2; i < lines.size(); i++) {
    CHECK(lines[i].number("net_stall_us") > lines[i - 1].number("net_stall_us"));
    CHECK_EQ(lines[i].number("net_stall_began_ns"), lines[i - 1].number("net_stall_began_ns"));
  }
  CHECK_EQ(lines.back().number("collectives"), 1);
  CHECK_EQ(lines.back().number("ended"), 0);
}
