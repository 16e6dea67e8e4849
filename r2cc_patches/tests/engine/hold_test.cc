// How long a connection may carry nothing: it is held, says so, and fails at both ends, whatever it is held for.
#include <algorithm>
#include <chrono>

#include "check.h"
#include "own_process.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);
constexpr uint64_t kHalf = 300;

void pauseMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

RigOptions twoRails(int64_t holdNs) {
  RigOptions options;
  options.rails = 2;
  options.holdNs = holdNs;
  return options;
}

/// Half of a stream is through, over rail 0.
Stream& halfWay(Rig& rig) {
  Stream& s = rig.stream(0, 1, 0, 2 * kHalf);
  s.sender->limit = s.receiver->limit = kHalf;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kHalf && s.sender->done() == kHalf; }));
  return s;
}

void lift(const Stream& s) { s.sender->limit = s.receiver->limit = UINT64_MAX; }

void lose(Rig& rig, int rail) {
  for (const int host : {0, 1}) {
    rig.fabric.cut({host, rail}, Cut::Lose);
    rig.link(host, rail, false);
  }
}

void bringBack(Rig& rig, int rail) {
  for (const int host : {0, 1}) {
    rig.fabric.heal({host, rail});
    rig.link(host, rail, true);
  }
}

/// Rail 0 is lost; rail 1 is up, and takes no lane: the one that stood by there is gone, too.
void bar(Rig& rig, int host) {
  rig.fabric.refuse({host, 1}, true);
  rig.fabric.breakComms({0, 1}), rig.fabric.breakComms({1, 1});
  lose(rig, 0);
}

bool bothFailed(const Stream& s) {
  return s.sender->state() == End::State::Failed && s.receiver->state() == End::State::Failed;
}

size_t count(const std::vector<std::string>& lines, const std::string& what) {
  return static_cast<size_t>(std::count_if(
      lines.begin(), lines.end(), [&](const std::string& line) { return line.find(what) != std::string::npos; }));
}

/// All went through, and the one thing to say was that it was held.
void finishHeld(Rig& rig) {
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  const std::vector<std::string> lines = rig.warnings();
  CHECK_EQ(lines.size(), 1u);
  CHECK_EQ(rig.problems(), lines.empty() ? "" : lines[0] + "\n");
  CHECK_EQ(count(lines, "no lane can be made to peer 127.0."), 1u);
  rig.fabric.healAll();
  rig.closeStreams();
  rig.endEngine(0), rig.endEngine(1);
  CHECK(rig.fabric.counts().clean());
  CHECK(rig.fabric.violations().empty());
}

}  // namespace

/// A firewall on new connections, or a transport that refuses, at either end: probes are answered all the while.
TEST(net_a_hold_ends_though_a_path_is_up) {
  for (const int host : {0, 1}) {
    const RigOptions options = twoRails(msToNs(2000));
    Rig rig(options);
    rig.fabric.refuse({host, 1}, true);
    const Stream& s = halfWay(rig);
    const int64_t start = nowNs();
    const int before = rig.seen(Type::OpenLane);
    lose(rig, 0);
    lift(s);
    pauseMs(1000);
    const int asked = rig.seen(Type::OpenLane) - before;
    CHECK(!bothFailed(s));
    CHECK(Rig::within(kLimitNs, [&] { return bothFailed(s); }));
    const int64_t took = nowNs() - start;
    CHECK(took >= msToNs(1900));
    CHECK(took < msToNs(6000));
    CHECK(asked < 60);  // a few at once, then ever fewer
    CHECK(rig.seen(Type::OpenLane) - before - asked < 20 * static_cast<int>(took / msToNs(1000) + 1));
    rig.stop();
    const std::vector<std::string> lines = rig.warnings();
    CHECK_EQ(count(lines, "no lane can be made to peer"), 1u);
    CHECK_EQ(count(lines, "a path is up, but no lane could be made on it for 2000 ms (R2CC_HOLD_MS) ("), 2u);
    CHECK_EQ(count(lines, "the peer says: "), 1u);
    CHECK(rig.fabric.violations().empty());
  }
}

/// It goes on as soon as a lane can be made.
TEST(net_a_hold_though_a_path_is_up_ends_well) {
  Rig rig(twoRails(msToNs(20000)));
  const Stream& s = halfWay(rig);
  bar(rig, 1);
  lift(s);
  pauseMs(1500);
  CHECK(rig.delivered() < 2 * kHalf);
  const check::Took took;
  rig.fabric.refuse({1, 1}, false);
  CHECK(rig.allDone(kLimitNs));
  CHECK(took.ns() < msToNs(2000));
  bringBack(rig, 0);
  finishHeld(rig);
}

/// Each return would begin it anew.
TEST(net_a_path_that_flaps_and_carries_nothing_prolongs_no_hold) {
  Rig rig(twoRails(msToNs(1500)));
  const Stream& s = halfWay(rig);
  bar(rig, 1);
  lift(s);
  const int64_t start = nowNs();
  while (!bothFailed(s) && nowNs() - start < kLimitNs) {
    lose(rig, 1);
    pauseMs(400);
    bringBack(rig, 1);
    pauseMs(250);
  }
  CHECK(bothFailed(s));
  CHECK(nowNs() - start < msToNs(6000));
  rig.stop();
  CHECK(count(rig.warnings(), "1500 ms (R2CC_HOLD_MS)") >= 2);
  CHECK(rig.fabric.violations().empty());
}

/// Another path is tried at once, whatever was refused before.
TEST(net_a_path_that_refused_nothing_is_tried_at_once) {
  RigOptions options = twoRails(msToNs(20000));
  options.rails = 3;
  Rig rig(options);
  lose(rig, 2);
  const Stream& s = halfWay(rig);
  bar(rig, 1);
  lift(s);
  pauseMs(1500);
  CHECK(rig.delivered() < 2 * kHalf);
  const check::Took took;
  bringBack(rig, 2);
  CHECK(rig.allDone(kLimitNs));
  CHECK(took.ns() < msToNs(1000));
  rig.fabric.refuse({1, 1}, false);
  bringBack(rig, 0);
  finishHeld(rig);
}

/// How long a stopped process may be one is not asked here: what passes meanwhile does not count.
TEST(net_a_stopped_peer_shortens_no_hold) {
  Rig rig(twoRails(msToNs(2400)));
  const Stream& s = halfWay(rig);
  bar(rig, 1);
  lift(s);
  const check::Took took;
  for (int n = 0; n < 2; n++) {
    rig.pause(1, true);
    pauseMs(1700);
    rig.pause(1, false);
    pauseMs(100);
  }
  CHECK(took.ns() > msToNs(2400));
  rig.fabric.refuse({1, 1}, false);
  finishHeld(rig);
}

/// A last resort is for this, too, however many paths are up and take no lane.
TEST(net_a_hold_though_paths_are_up_ends_on_the_last_resort) {
  RigOptions options = twoRails(msToNs(20000));
  options.rails = 3;
  options.lastResort = true;
  Rig rig(options);
  const Stream& s = halfWay(rig);
  rig.fabric.refuse({1, 2}, true);
  rig.fabric.breakComms({0, 2}), rig.fabric.breakComms({1, 2});
  bar(rig, 1);
  lift(s);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(count(rig.warnings(), "no lane can be made to peer"), 1u);
  CHECK_EQ(count(rig.warnings(), "going on over sockets"), 1u);
}
