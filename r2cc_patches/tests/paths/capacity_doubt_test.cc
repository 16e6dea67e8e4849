// A path that is weak while the other direction is whole: tried again, ever more rarely.
#include "check.h"
#include "paths/feed.h"

using namespace r2cc;

TEST(net_capacity_one_that_is_whole_the_other_way_is_tried_ever_more_rarely) {
  const auto tries = [](bool clocked, bool doubted, int windows) {
    Feed feed(2);
    feed.clocked = clocked;
    int raised = 0;
    double before = 1;
    for (int i = 0; i < windows; i++) {
      feed.capacities.doubt(*feed.paths[1], doubted);
      (void)feed.window({0.125, 0.05}, 1.0);  // as two ends that spare different NICs see them
      raised += feed.paths[1]->capacity > 1.5 * before ? 1 : 0;
      before = feed.paths[1]->capacity;
    }
    CHECK(feed.paths[0]->capacity == 1.0);
    return raised;
  };
  constexpr int kSecond = 46;  // windows
  CHECK_EQ(tries(true, true, kSecond), 1);
  CHECK_EQ(tries(true, true, 20 * kSecond), 5);
  CHECK(tries(true, true, 600 * kSecond) <= 15);
  CHECK_EQ(tries(true, false, 20 * kSecond), 0);
  CHECK_EQ(tries(false, true, 20 * kSecond), 0);  // the kernel's own count does not wait for what is sent back
}

TEST(net_capacity_one_that_is_tried_and_well_is_whole_soon) {
  Feed feed(2);
  feed.clocked = true;
  for (int i = 0; i < 20; i++) (void)feed.window({0.125, 0.05}, 1.0);
  CHECK(feed.paths[1]->capacity < 0.5);
  for (int i = 0; i < 40 && feed.paths[1]->capacity < 1; i++) {
    feed.capacities.doubt(*feed.paths[1], true);
    // Nothing is broken any more: what is given more carries more.
    (void)feed.window({0.125, feed.paths[1]->capacity < 0.5 ? 0.05 : 0.125}, 1.0);
  }
  CHECK(feed.paths[1]->capacity == 1.0);
}
