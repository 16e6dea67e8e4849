// A NIC that comes back with another address: after moments, after a day, at either end, and again and again.

#include "check.h"
#include "own_process.h"
#include "rig/door.h"
#include "rig/faults.h"
#include "rig/finish.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);
constexpr int64_t kDayNs = msToNs(int64_t{24} * 3600 * 1000);

/// The `n`-th address of a host's rail: what the fabric goes by is the same in all.
NicAddress address(int host, int rail, int n) {
  NicAddress out;
  out.family = AF_INET;
  out.prefix = 24;
  out.ip = {127, static_cast<uint8_t>(n), static_cast<uint8_t>(rail + 1), static_cast<uint8_t>(host + 1)};
  return out;
}

double capacity(const Rig& rig, int host, size_t rail) {
  R2ccNicHealth nics[8];
  const int count = rig.health(host).read(nics, 8);
  return static_cast<int>(rail) < count ? nics[rail].capacity : -1;
}

bool shows(const Rig& rig, int host, double wanted) {
  return Rig::within(kLimitNs, [&] { return capacity(rig, host, 0) == wanted; });
}

/// NIC 0 of a host is at its `n`-th address, and up.
bool isAt(Rig& rig, int host, int n) {
  return Rig::within(kLimitNs, [&] {
    return EngineDoor::address(rig.engine(host), 0).sameHost(address(host, 0, n)) &&
           EngineDoor::linkUp(rig.engine(host), 0);
  });
}

/// NIC 0 of a host has no address; what was made there is dead.
void loseAddress(Rig& rig, int host) {
  rig.fabric.cut({host, 0}, Cut::Hold);
  rig.engine(host).reportAddress(0, {});
}

void giveAddress(Rig& rig, int host, int n) {
  rig.fabric.heal({host, 0});
  rig.engine(host).reportAddress(0, address(host, 0, n));
}

void goOn(Stream& s) { s.sender->limit = s.receiver->limit = UINT64_MAX; }

/// Rail 1 is lost in the end: only what is back can carry the rest.
void endOnRail0(Rig& rig, int messages, Stream& s) {
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() >= static_cast<uint64_t>(messages) / 2; }));
  for (const int host : {0, 1}) {
    rig.fabric.cut({host, 1}, Cut::Hold);
    rig.link(host, 1, false);
  }
  goOn(s);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.fabric.healAll();
}

RigOptions two() {
  RigOptions out;
  out.rails = 2;
  return out;
}

Stream& half(Rig& rig, uint64_t messages) {
  Stream& s = rig.stream(0, 1, 0, messages);
  s.sender->limit = s.receiver->limit = messages / 2;
  rig.start();
  return s;
}

void another(const std::vector<int>& hosts) {
  Rig rig(two());
  Stream& s = half(rig, 1000);
  for (const int host : hosts) loseAddress(rig, host);
  for (const int host : hosts) CHECK(shows(rig, host, 0));
  for (const int host : hosts) giveAddress(rig, host, 7);
  for (const int host : hosts) CHECK(shows(rig, host, 1));
  endOnRail0(rig, 1000, s);
}

}  // namespace

TEST(net_address_of_the_sender_is_another) { another({0}); }
TEST(net_address_of_the_receiver_is_another) { another({1}); }
TEST(net_address_of_both_is_another) { another({0, 1}); }

TEST(net_address_that_is_replaced_at_once) {
  Rig rig(two());
  Stream& s = half(rig, 1000);
  rig.engine(0).reportAddress(0, address(0, 0, 7));
  CHECK(isAt(rig, 0, 7));
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Addresses) > 0; }));
  CHECK(shows(rig, 0, 1));
  endOnRail0(rig, 1000, s);
}

// The subnet's size alone: nothing that is in use minds.
TEST(net_address_in_a_subnet_of_another_size) {
  Rig rig(two());
  Stream& s = half(rig, 1000);
  NicAddress wider = address(0, 0, 0);
  wider.prefix = 16;
  rig.engine(0).reportAddress(0, wider);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Addresses) > 0; }));
  CHECK(EngineDoor::linkUp(rig.engine(0), 0));
  CHECK_EQ(EngineDoor::address(rig.engine(0), 0).prefix, 16);
  endOnRail0(rig, 1000, s);
}

// What was learned of the path, and every deadline, is a day old when it returns.
TEST(net_address_is_another_after_a_day) {
  Rig rig(two());
  Stream& s = half(rig, 1000);
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 500; }));
  for (const int host : {0, 1}) loseAddress(rig, host);
  for (const int host : {0, 1}) CHECK(shows(rig, host, 0));
  leap(rig, kDayNs, kLimitNs);
  for (const int host : {0, 1}) giveAddress(rig, host, 7);
  for (const int host : {0, 1}) CHECK(shows(rig, host, 1));
  endOnRail0(rig, 1000, s);
}

TEST(net_link_returns_after_a_day) {
  Rig rig(two());
  Stream& s = half(rig, 1000);
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 500; }));
  rig.fabric.cut({0, 0}, Cut::Hold);
  rig.link(0, 0, false);
  CHECK(shows(rig, 0, 0));
  leap(rig, kDayNs, kLimitNs);
  rig.fabric.heal({0, 0});
  rig.link(0, 0, true);
  CHECK(shows(rig, 0, 1));
  endOnRail0(rig, 1000, s);
}

TEST(net_address_that_is_another_again_and_again_leaves_nothing_behind) {
  Rig rig(two());
  Stream& s = half(rig, 1000);
  int first = 0;
  for (int n = 1; n <= 20; n++) {
    rig.engine(n % 2).reportAddress(0, address(n % 2, 0, n));
    CHECK(isAt(rig, n % 2, n));
    if (n == 4) first = check::descriptors();
  }
  CHECK(Rig::within(kLimitNs, [&] { return check::descriptors() <= first + 4; }));
  endOnRail0(rig, 1000, s);
}

// A port that was down at the start has no address yet: a device all the same, and used once it has one.
TEST(net_address_that_an_rdma_port_gets_after_the_start) {
  RigOptions options = two();
  options.needsAck = false;
  options.anyOrder = options.drains = true;
  options.late = 0;
  Rig rig(options);
  for (const int host : {0, 1}) {
    rig.fabric.cut({host, 0}, Cut::Hold);
    CHECK(!EngineDoor::linkUp(rig.engine(host), 0));
  }
  Stream& s = half(rig, 1000);
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() >= 500; }));
  for (const int host : {0, 1}) giveAddress(rig, host, 0);
  for (const int host : {0, 1}) CHECK(shows(rig, host, 1));
  endOnRail0(rig, 1000, s);
}
