// Lanes whose transport takes long to close: nobody waits for that, and each is closed all the same.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "check.h"
#include "lanes/closer.h"

using namespace r2cc;

namespace {

/// A net whose closes hang until they are let go, and are counted.
struct SlowNet {
  std::atomic<bool> hangs{true};
  std::atomic<int> closed{0};
  std::atomic<bool> ended{false};
};
SlowNet slow;

ncclResult_t closeSlowly(void*) {
  while (slow.hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(!slow.ended);
  slow.closed++;
  return ncclSuccess;
}

template <class What>
bool soon(What what) {
  for (const int64_t limit = nowNs() + msToNs(10000); nowNs() < limit;) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return what();
}

LanePtr laneOf(const std::shared_ptr<const void>& keeps) {
  static const ncclNet_t net = [] {
    ncclNet_t n{};
    n.closeSend = closeSlowly;
    return n;
  }();
  static const InnerOps ops{};
  auto lane = std::make_shared<Lane>(nullptr, 1, /*sends=*/true, nullptr, 0, InnerNet{&net, &ops}, nullptr);
  lane->keeps = keeps;
  lane->comm = &slow;
  lane->inOrder = true;
  return lane;
}

}  // namespace

TEST(net_closer_ends_soon_and_closes_every_lane_later) {
  std::shared_ptr<const void> keeps(&slow, [](SlowNet* net) { net->ended = true; });
  LanePtr used = laneOf(keeps);
  used->users = 1;
  auto closer = std::make_unique<Closer>();
  closer->close(laneOf(keeps));
  closer->close(used);
  closer->close(laneOf(keeps));
  keeps.reset();
  closer->hurry();
  const int64_t before = nowNs();
  closer.reset();
  CHECK(nowNs() - before < msToNs(1500));
  CHECK_EQ(slow.closed.load(), 0);
  slow.hangs = false;
  CHECK(soon([] { return slow.closed == 2; }));
  CHECK(!slow.ended);  // what is in use is not closed, and its net lives
  used->users = 0;
  used.reset();
  CHECK(soon([] { return slow.closed == 3; }));
  CHECK(soon([] { return slow.ended.load(); }));
}
