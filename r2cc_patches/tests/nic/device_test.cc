// A device that its driver gave up, and that is opened anew under a running job: what was made on it is dead for good,
// and only what is made afterwards is of use.
#include <thread>

#include "check.h"
#include "own_process.h"
#include "rig/door.h"
#include "rig/finish.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(20000);
constexpr int64_t kDayNs = msToNs(int64_t{24} * 3600 * 1000);

RigOptions verbs(int rails) {
  RigOptions out;
  out.rails = rails;
  out.needsAck = false;
  out.anyOrder = out.drains = out.devices = true;
  return out;
}

void letGo(Stream& s, uint64_t messages) { s.sender->limit = s.receiver->limit = messages; }

bool reached(Rig& rig, uint64_t messages) {
  return Rig::within(kLimitNs, [&] { return rig.delivered() >= messages; });
}

bool isUp(Rig& rig, int host, bool up) {
  return Rig::within(kLimitNs, [&] { return EngineDoor::linkUp(rig.engine(host), 0) == up; });
}

/// It is lost, and stays so while it cannot be opened.
void lose(Rig& rig, int host) {
  rig.fabric.loseDevice({host, 0});
  CHECK(isUp(rig, host, false));
}

void giveBack(Rig& rig, int host, int times = 1) {
  rig.fabric.returnDevice({host, 0});
  CHECK(isUp(rig, host, true));
  CHECK_EQ(rig.fabric.reopened({host, 0}), times);
}

/// Rail 1 is cut in the end: only what is back can carry the rest.
void endOnRail0(Rig& rig, Stream& s) {
  for (const int host : {0, 1}) {
    rig.fabric.cut({host, 1}, Cut::Lose);
    rig.link(host, 1, false);
  }
  letGo(s, UINT64_MAX);
  finishClean(rig, kLimitNs);
}

void lostAndBack(int host) {
  Rig rig(verbs(2));
  Stream& s = rig.stream(0, 1, 0, 900);
  letGo(s, 300);
  rig.start();
  CHECK(reached(rig, 100));
  lose(rig, host);
  letGo(s, 600);
  CHECK(reached(rig, 600));  // the job goes on meanwhile
  giveBack(rig, host);
  endOnRail0(rig, s);
}

}  // namespace

TEST(net_device_of_the_sender_is_lost_and_opened_anew) { lostAndBack(0); }
TEST(net_device_of_the_receiver_is_lost_and_opened_anew) { lostAndBack(1); }

TEST(net_device_that_is_the_only_one_is_waited_for) {
  Rig rig(verbs(1));
  Stream& s = rig.stream(0, 1, 0, 600);
  letGo(s, 300);
  rig.start();
  CHECK(reached(rig, 300));
  lose(rig, 0);
  letGo(s, UINT64_MAX);
  giveBack(rig, 0);
  finishClean(rig, kLimitNs);
}

TEST(net_device_that_one_communicator_left_lost_is_opened_anew_by_the_next) {
  Rig rig(verbs(2));
  rig.stream(0, 1, 0, 300);
  rig.start();
  CHECK(reached(rig, 100));
  lose(rig, 0);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  rig.closeStreams();
  for (const int host : {0, 1}) rig.renewEngine(host);
  CHECK(!EngineDoor::linkUp(rig.engine(0), 0));  // known before anything is made on it
  Stream& s = rig.stream(0, 1, 0, 900);
  letGo(s, 300);
  rig.start();
  CHECK(reached(rig, 300));
  giveBack(rig, 0);
  endOnRail0(rig, s);
}

TEST(net_device_that_stays_lost_is_tried_less_and_less_often) {
  Rig rig(verbs(2));
  Stream& s = rig.stream(0, 1, 0, 900);
  rig.start();
  lose(rig, 0);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  CHECK(rig.fabric.triedToReopen({0, 0}) <= 3);  // by half seconds they would be six
  giveBack(rig, 0);
  endOnRail0(rig, s);
}

TEST(net_device_that_returns_after_a_day) {
  Rig rig(verbs(2));
  Stream& s = rig.stream(0, 1, 0, 900);
  letGo(s, 600);
  rig.start();
  CHECK(reached(rig, 600));
  lose(rig, 0);
  letGo(s, 700);
  CHECK(reached(rig, 700));  // it has moved
  leap(rig, kDayNs, kLimitNs);
  giveBack(rig, 0);
  endOnRail0(rig, s);
}

TEST(net_device_that_is_lost_again_and_again_leaves_nothing_behind) {
  Rig rig(verbs(2));
  Stream& s = rig.stream(0, 1, 0, 900);
  letGo(s, 100);
  rig.start();
  CHECK(reached(rig, 100));
  int first = 0;
  for (int n = 1; n <= 4; n++) {
    lose(rig, n % 2);
    letGo(s, 100 + 100 * static_cast<uint64_t>(n));
    giveBack(rig, n % 2, (n + 1) / 2);
    CHECK(reached(rig, 100 + 100 * static_cast<uint64_t>(n)));
    if (n == 2) first = check::descriptors();
  }
  CHECK(Rig::within(kLimitNs, [&] { return check::descriptors() <= first + 4; }));
  endOnRail0(rig, s);
}
