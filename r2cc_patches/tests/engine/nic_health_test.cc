// What a host is told its own NICs can carry, whoever found out; and NICs that are taken for failed from the start.
#include <fstream>
#include <stdexcept>
#include <thread>

#include "check.h"
#include "engine/shown.h"
#include "engine/turns.h"
#include "net/assumed_down.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);

/// A ring of three hosts over every rail, with traffic until stopped.
void ring(Rig& rig, int rails) {
  for (int host = 0; host < 3; host++) {
    for (int rail = 0; rail < rails; rail++) rig.stream(host, (host + 1) % 3, rail, UINT64_MAX / 2);
  }
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() >= 300; }));
}

void finish(Rig& rig) {
  rig.stop();
  for (const Stream& stream : rig.streams()) CHECK_EQ(stream.receiver->wrong(), "");
  rig.fabric.healAll();
}

RigOptions three() {
  RigOptions o;
  o.hosts = 3;
  return o;
}

}  // namespace

TEST(net_health_follows_the_link_and_comes_back_after_probation) {
  Rig rig(three());
  ring(rig, 3);
  CHECK(shows(rig, 1, {1, 1, 1}));
  const uint64_t before = rig.health(1).version();
  rig.fabric.cut({1, 2}, Cut::Hold);
  rig.link(1, 2, false);
  CHECK(shows(rig, 1, {1, 1, 0}));
  CHECK(rig.health(1).version() > before);
  CHECK(shows(rig, 0, {1, 1, 1}));  // its own NICs are well
  rig.fabric.heal({1, 2});
  rig.link(1, 2, true);
  CHECK(shows(rig, 1, {1, 1, 1}));
  finish(rig);
}

namespace {

bool says(const std::string& file, const std::string& words) {
  std::ifstream in(file);
  return std::string(std::istreambuf_iterator<char>(in), {}).find(words) != std::string::npos;
}

/// A link of host 1 goes and comes back. All the while nothing may be said against the NICs of host 0, and host 1's NIC
/// is to be whole again in the end.
void linkOfOneGoesAndHost0IsWell(Rig& rig, int rail) {
  const Shown well(3, 1.0);
  const auto until = [&](const Shown& wanted) {
    return Rig::within(kLimitNs, [&] {
      CHECK(healthOf(rig, 0) == well);
      return healthOf(rig, 1) == wanted;
    });
  };
  Shown lost = well;
  lost[static_cast<size_t>(rail)] = 0;
  rig.fabric.cut({1, rail}, Cut::Hold);
  rig.link(1, rail, false);
  CHECK(until(lost));
  rig.fabric.heal({1, rail});
  rig.link(1, rail, true);
  CHECK(until(well));
  for (int i = 0; i < 100; i++) {  // its paths are watched before they are up
    CHECK(healthOf(rig, 0) == well);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

TEST(net_health_of_a_link_that_returns_is_no_loss_at_the_only_other_host) {
  RigOptions o;
  o.hosts = 2;
  Rig rig(o);
  for (int rail = 0; rail < 3; rail++) rig.stream(0, 1, rail, UINT64_MAX / 2), rig.stream(1, 0, rail, UINT64_MAX / 2);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() >= 200; }));
  linkOfOneGoesAndHost0IsWell(rig, 2);
  finish(rig);
}

TEST(net_health_forgets_where_a_silence_was_once_the_path_is_up_again) {
  const check::Scratch scratch;
  RigOptions o = three();
  o.eventFile = scratch / "events";
  Rig rig(o);
  ring(rig, 3);
  rig.fabric.cut({0, 1}, Cut::Hold);
  CHECK(shows(rig, 0, {1, 0, 1}));
  CHECK(Rig::within(kLimitNs, [&] { return says(o.eventFile, "local_nic"); }));
  rig.fabric.heal({0, 1});
  for (int host = 0; host < 3; host++) CHECK(shows(rig, host, {1, 1, 1}));
  linkOfOneGoesAndHost0IsWell(rig, 1);  // of the same rail, later
  finish(rig);
}

TEST(net_health_of_a_black_hole_is_that_of_the_nic_it_is_at) {
  Rig rig(three());
  ring(rig, 3);
  rig.fabric.cut({1, 0}, Cut::Hold);  // silent: no link says anything
  CHECK(shows(rig, 1, {0, 1, 1}));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(shows(rig, 0, {1, 1, 1}));
  CHECK(shows(rig, 2, {1, 1, 1}));
  rig.fabric.heal({1, 0});
  CHECK(shows(rig, 1, {1, 1, 1}));
  finish(rig);
}

TEST(net_health_of_a_black_hole_one_way_is_found_as_well) {
  Rig rig(three());
  ring(rig, 3);
  for (const int to : {0, 2}) rig.fabric.cutOneWay({1, 0}, {to, 0});  // it hears, and nobody hears it
  CHECK(shows(rig, 1, {0, 1, 1}));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(shows(rig, 0, {1, 1, 1}));
  CHECK(shows(rig, 2, {1, 1, 1}));
  finish(rig);
}

namespace {

/// Host `by` is to locate the silence of its path to `peer` at the wrong NIC, `where`, while nothing passes from NIC 0
/// of host `from` to that of host `to`.
struct Wrong {
  int from, to, by, peer;
  const char* where;
};

/// Nobody hears NIC 0 of host 1. While one more direction of that rail is lost, a silence is located at the wrong NIC:
/// that is taken back once the direction passes again. False: the hosts were too late for that.
bool isTakenBack(const Wrong& wrong) {
  const check::Scratch scratch;
  RigOptions o = three();
  o.eventFile = scratch / "events";
  Turns turns;
  Rig rig(o);
  turns.watch(rig);
  ring(rig, 3);
  turns.begin();
  rig.fabric.cutOneWay({wrong.from, 0}, {wrong.to, 0});
  for (const int other : {0, 2}) rig.fabric.cutOneWay({1, 0}, {other, 0});
  const std::string located = R"("peer":"127.0.1.)" + std::to_string(wrong.peer + 1) +
                              R"(","peer_nic":0,"state":"located","cause":"probe","where":)";
  CHECK(Rig::within(kLimitNs, [&] { return says(o.eventFile, located); }));
  const bool onTime = turns.onTime({wrong.by, wrong.peer});
  const bool wasWrong = says(o.eventFile, located + '"' + wrong.where + '"');
  CHECK(wasWrong || !onTime);
  if (wasWrong) {
    rig.fabric.healOneWay({wrong.from, 0}, {wrong.to, 0});
    CHECK(shows(rig, 1, {0, 1, 1}));
    for (const int host : {0, 2}) CHECK(shows(rig, host, {1, 1, 1}));
  }
  finish(rig);
  return wasWrong;
}

}  // namespace

TEST(net_health_takes_back_that_a_nic_here_was_silent) {
  CHECK(onceOnTime([] { return isTakenBack({2, 0, 0, 1, "local_nic"}); }));
}

TEST(net_health_takes_back_that_a_nic_there_was_silent) {
  CHECK(onceOnTime([] { return isTakenBack({0, 2, 1, 2, "remote_nic"}); }));
}

TEST(net_health_of_a_nic_that_only_receives_is_said_by_those_who_send_to_it) {
  RigOptions o;
  o.hosts = 4;
  Rig rig(o);
  for (int rail = 0; rail < 3; rail++) {
    for (const int from : {0, 2}) {
      for (const int to : {1, 3}) rig.stream(from, to, rail, UINT64_MAX / 2);
    }
  }
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() >= 400; }));
  rig.fabric.cut({1, 0}, Cut::Hold);  // both find that it is at fault: theirs are heard by host 3
  CHECK(shows(rig, 1, {0, 1, 1}));
  for (const int host : {0, 2, 3}) CHECK(shows(rig, host, {1, 1, 1}));
  rig.fabric.heal({1, 0});
  CHECK(shows(rig, 1, {1, 1, 1}));
  finish(rig);
}

TEST(net_health_of_one_link_is_nobody_s) {
  Rig rig(three());
  ring(rig, 3);
  rig.fabric.cutOneWay({0, 0}, {1, 0});
  rig.fabric.cutOneWay({1, 0}, {0, 0});
  const int freezes = rig.seen(Type::Freeze);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > freezes; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  for (int host = 0; host < 3; host++) CHECK(shows(rig, host, {1, 1, 1}));
  finish(rig);
}

TEST(net_health_of_a_slow_nic_is_known_at_its_host_and_there_alone) {
  RigOptions o = three();
  o.rails = 4, o.mode = 2, o.samples = true;
  Rig rig(o);
  for (int host = 0; host < 3; host++) {
    for (int rail = 0; rail < 4; rail++) rig.fabric.carries({host, rail}, 1.0);
  }
  ring(rig, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));  // all are well for five windows and more
  rig.fabric.carries({0, 0}, 0.5);                              // what host 0 sends, and what host 2 sends to it
  rig.fabric.carries({2, 0}, 0.5);
  CHECK(Rig::within(kLimitNs, [&] { return healthOf(rig, 0).at(0) < 0.7; }));
  CHECK(healthOf(rig, 0).at(0) > 0.3);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const int host : {1, 2}) CHECK_EQ(healthOf(rig, host).at(0), 1.0);
  finish(rig);
}

TEST(net_health_knows_of_nics_that_fail_together) {
  for (const std::vector<uint8_t>& domains : {std::vector<uint8_t>{}, std::vector<uint8_t>{7, 7, 8}}) {
    RigOptions o = three();
    o.domains = domains;
    const Rig rig(o);
    for (int host = 0; host < 3; host++) CHECK_EQ(rig.health(host).failTogether(), !domains.empty());
  }
}

TEST(net_health_compares_nothing_while_a_schedule_loads_nics_unevenly) {
  RigOptions o = three();
  o.rails = 4, o.mode = 2, o.samples = true;
  Rig rig(o);
  for (int host = 0; host < 3; host++) {
    for (int rail = 0; rail < 4; rail++) rig.fabric.carries({host, rail}, 1.0);
    rig.health(host).uneven(1, 1, false);
  }
  ring(rig, 4);
  for (const int host : {0, 2}) rig.fabric.carries({host, 0}, 0.5);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  CHECK_EQ(healthOf(rig, 0).at(0), 1.0);
  for (int host = 0; host < 3; host++) rig.health(host).uneven(-1, 1, false);
  CHECK(Rig::within(kLimitNs, [&] { return healthOf(rig, 0).at(0) < 0.7; }));
  finish(rig);
}

TEST(net_a_nic_taken_for_failed_carries_nothing_and_never_returns) {
  RigOptions o = three();
  o.assumedDown = 1;
  o.mode = 2;
  Rig rig(o);
  ring(rig, 3);
  CHECK(shows(rig, 0, {1, 0, 1}));
  CHECK_EQ(rig.fabric.lanes({0, 1}), 0);
  rig.link(0, 1, false);
  rig.link(0, 1, true);  // a flap of the cable changes nothing
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  CHECK(shows(rig, 0, {1, 0, 1}));
  CHECK_EQ(rig.fabric.lanes({0, 1}), 0);
  CHECK(rig.fabric.lanes({0, 0}) > 0);
  finish(rig);
}

TEST(net_assumed_down_takes_hosts_and_nics) {
  const std::vector<std::string> us{"h1", "h1.rack", "id:7"};
  CHECK(assumedDown("", us).empty());
  CHECK(assumedDown("h0:eth0", us).empty());
  CHECK(assumedDown("h0:eth0,h1:eth1,id:7:mlx5_0,h1.rack:eth2", us) ==
        (std::vector<std::string>{"eth1", "mlx5_0", "eth2"}));
  for (const char* bad : {"h0", "h0:", ":eth0", "h0:eth0,", ",", "h0:eth0 h1:eth1", "h0:eth0,,h1:eth0"}) {
    CHECK(THROWN(std::invalid_argument, assumedDown(bad, us)).find("R2CC_ASSUME_DOWN") != std::string::npos);
  }
}

TEST(net_health_board_versions_change_with_capacities_alone) {
  HealthBoard board;
  R2ccNicHealth nic{};
  CHECK_EQ(board.read(&nic, 1), 0);
  board.open({{"eth0", 1.0, 25.0}, {"eth1", 1.0, 25.0}});
  const uint64_t version = board.version();
  board.set({1.0, 1.0});
  CHECK_EQ(board.version(), version);
  board.set({0.5, 1.0});
  CHECK_EQ(board.version(), version + 1);
  CHECK_EQ(board.read(&nic, 1), 2);  // there are more than there is room for
  CHECK_EQ(nic.capacity, 0.5);
  CHECK_EQ(std::string(nic.name), "eth0");
}
