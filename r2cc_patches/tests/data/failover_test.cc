// Failover, end to end: two engines, several rails, numbered messages, one fault.
#include <algorithm>
#include <chrono>
#include <thread>

#include "check.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

TEST(net_healthy_stream) {
  Rig rig({});
  rig.stream(0, 1, 0, 500);
  rig.start();
  CHECK(rig.allDone(msToNs(10000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

TEST(net_link_lost_mid_stream) {
  Rig rig({});
  rig.stream(0, 1, 0, 1000);
  rig.start();
  CHECK(Rig::within(msToNs(5000), [&] { return rig.delivered() > 500; }));
  rig.fabric.cut({0, 0}, Cut::Hold);
  rig.link(0, 0, false);
  CHECK(rig.allDone(msToNs(10000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.fabric.healAll();
}

namespace {

/// Half of the messages are through, nothing is under way, and another lane may be asked for again.
void settle(Rig& rig, const Stream& s, uint64_t messages) {
  s.sender->limit = s.receiver->limit = messages / 2;
  rig.start();
  CHECK(Rig::within(msToNs(5000), [&] { return rig.delivered() == messages / 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
}

}  // namespace

TEST(net_data_goes_before_new_lanes) {
  RigOptions options;
  options.mode = 2;  // which would spread the load at once
  Rig rig(options);
  std::atomic<bool> broken{false};
  std::atomic<int64_t> fenced{0}, opened{0};
  rig.spy = [&](int, const NicAddress&, const std::vector<uint8_t>& bytes) {
    const auto parsed = Parsed::open(bytes.data(), bytes.size());
    if (!parsed || !broken) return;
    parsed->forEach([&](Type type, Reader&) {
      int64_t never = 0;
      if (type == Type::Fenced) fenced.compare_exchange_strong(never, nowNs());
      if (type == Type::OpenLane && fenced != 0) opened.compare_exchange_strong(never, nowNs());
    });
  };
  const Stream& s = rig.stream(0, 1, 0, 1000);
  settle(rig, s, 1000);
  const int pings = rig.seen(Type::Ping);
  broken = true;
  rig.fabric.cut({0, 0}, Cut::Hold);
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  // Somebody asks: messages are out and stand still.
  CHECK(Rig::within(msToNs(5000), [&] { return rig.seen(Type::Ping) > pings; }));
  rig.link(0, 0, false);
  CHECK(rig.allDone(msToNs(10000)));
  CHECK(Rig::within(msToNs(5000), [&] { return opened != 0; }));
  CHECK(opened - fenced >= msToNs(10));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.fabric.healAll();
}

namespace {

/// Rail 0, which carries, and another one are lost at once: whether the load is spread over what is left soon.
bool spreadSoon(int other) {
  RigOptions options;
  options.rails = 4;
  options.mode = 2;
  Rig rig(options);
  const Stream& s = rig.stream(0, 1, 0, 400);
  settle(rig, s, 400);
  const int switches = rig.seen(Type::Switch);
  s.sender->limit = s.receiver->limit = 201;  // it is in use
  CHECK(Rig::within(msToNs(5000), [&] { return rig.delivered() == 201; }));
  rig.link(0, other, false), rig.link(0, 0, false);
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  const bool soon = Rig::within(msToNs(400), [&] { return rig.seen(Type::Switch) > switches; });
  CHECK(rig.allDone(msToNs(10000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  return soon;
}

}  // namespace

/// One of the others is where the idle lane is: it must not hold up what follows that it is lost.
TEST(net_two_nics_lost_at_once_are_spread_at_once) {
  for (int other = 1; other < 4; other++) CHECK(spreadSoon(other));
}

/// What loses its NIC together must not go to one and the same other NIC.
TEST(net_spare_lanes_of_one_home_lie_apart) {
  Rig rig({});
  for (const int rail : {0, 0, 1, 1, 2, 2}) rig.stream(0, 1, rail, 100);
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = 50;
  rig.start();
  for (const Stream& s : rig.streams()) CHECK(Rig::within(msToNs(10000), [&] { return s.receiver->done() == 50; }));
  const auto spare = [&](size_t index) {
    std::vector<int> devs = rig.fabric.devsWith(0, rig.streams()[index].sender->buffers());
    devs.erase(std::remove(devs.begin(), devs.end(), static_cast<int>(index / 2)), devs.end());
    return devs;
  };
  for (size_t index = 0; index < 6; index++) CHECK(Rig::within(msToNs(5000), [&] { return spare(index).size() == 1; }));
  for (size_t rail = 0; rail < 3; rail++) CHECK(spare(2 * rail) != spare(2 * rail + 1));
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(msToNs(10000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

namespace {

/// Rail 0 goes, its connection moves to the other one and back.
void loseAndReturn(Rig& rig) {
  const int fenced = rig.seen(Type::Fenced), switched = rig.seen(Type::Switched);
  rig.link(0, 0, false);
  CHECK(Rig::within(msToNs(5000), [&] { return rig.seen(Type::Fenced) > fenced; }));
  rig.link(0, 0, true);
  CHECK(Rig::within(msToNs(5000), [&] { return rig.seen(Type::Switched) > switched; }));
}

/// Rail 0 is lost and returns, under messages that come one by one or none at all, and then all is quiet: whether the
/// next loss finds a lane that stands by, for none can be made.
bool readyAfterReturn(int mode, bool trickles) {
  RigOptions options;
  options.rails = 2;
  options.mode = mode;
  Rig rig(options);
  const Stream& s = rig.stream(0, 1, 0, 1000);
  settle(rig, s, 400);
  std::atomic<bool> stop{false};
  std::thread trickle([&] {
    while (!stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (!trickles || rig.delivered() < s.sender->limit) continue;
      s.receiver->limit++, s.sender->limit++;
    }
  });
  loseAndReturn(rig);
  stop = true;
  trickle.join();
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  rig.loseType(Type::OpenLane, true);
  const int fenced = rig.seen(Type::Fenced);
  rig.link(0, 0, false);
  const bool ready = Rig::within(msToNs(1000), [&] { return rig.seen(Type::Fenced) > fenced; });
  rig.loseType(Type::OpenLane, false);
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(msToNs(15000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  return ready;
}

}  // namespace

/// It would keep a plan's old steps, and their lanes, until messages took it past them.
TEST(net_an_idle_connection_that_returned_has_a_lane_ready) {
  for (const int mode : {1, 2}) {
    for (const bool trickles : {false, true}) CHECK(readyAfterReturn(mode, trickles));
  }
}

/// NCCL asks for eight messages ahead, and they come one by one: each time the connection seems idle, but a switch
/// cannot begin before those eight.
TEST(net_an_idle_connection_asks_once_to_leave_what_is_asked_for) {
  RigOptions options;
  options.rails = 2;
  Rig rig(options);
  const Stream& s = rig.stream(0, 1, 0, 600);
  s.sender->limit = 200;
  rig.start();
  CHECK(Rig::within(msToNs(5000), [&] { return rig.delivered() == 200; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  loseAndReturn(rig);
  const size_t before = rig.decided(Type::Switch);
  for (int i = 0; i < 30; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    s.sender->limit++;
  }
  CHECK(rig.decided(Type::Switch) - before <= 2);  // the return itself
  s.sender->limit = UINT64_MAX;
  CHECK(rig.allDone(msToNs(15000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}
