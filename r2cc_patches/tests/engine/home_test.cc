// What a lost NIC had: where it is while a schedule counts on the loss, and when it comes home.
#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "check.h"
#include "engine/shown.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);

void finish(Rig& rig) {
  rig.stop();
  for (const Stream& stream : rig.streams()) CHECK_EQ(stream.receiver->wrong(), "");
  rig.fabric.healAll();
}

/// Of every connection that this file tells of, the last line of its sender.
std::map<std::string, std::string> lastOfSenders(const std::string& file) {
  std::map<std::string, std::string> last;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"direction\":\"send\"") == std::string::npos) continue;
    const size_t from = line.find("\"connection\":");
    last[line.substr(from, line.find(',', from) - from)] = line;
  }
  return last;
}

/// Of each connection: the rail its sender is on, - where it is on several. Of nine connections at most.
std::string railsOf(const std::string& file) {
  std::string rails;
  for (const auto& [connection, line] : lastOfSenders(file)) {
    const std::string key = "\"peer_nic\":";
    const bool several = line.find("\"shares\"") != std::string::npos, there = line.find(key) != std::string::npos;
    rails += (rails.empty() ? "" : " ") + (several || !there ? "-" : line.substr(line.find(key) + key.size(), 1));
  }
  return rails;
}

void limit(const Stream& stream, uint64_t messages) { stream.sender->limit = stream.receiver->limit = messages; }

/// The first so many streams go on, a message each at a time, until it is so.
bool goesOnUntil(Rig& rig, size_t streams, uint64_t from, const std::function<bool()>& so) {
  return Rig::within(kLimitNs, [&, next = from]() mutable {
    for (size_t i = 0; i < streams; i++) limit(rig.streams()[i], next);
    next++;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return so();
  });
}

/// Two connections at home on NIC 1 of host 0, the first one made for schedules. That NIC goes, a schedule begins that
/// counts on it, and the NIC is back.
class Away {
 public:
  Away() : rig(options(file_)) {
    rig.health(0).scheduleConnects(1, {1, UINT64_MAX, 0});
    connect();
    rig.health(0).scheduleConnects(-1, {1});
    connect();
    rig.start();
    lose(1);
    CHECK(Rig::within(kLimitNs, [&] { return spread(0) && spread(1); }));
    rig.health(0).uneven(1, 1, false);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until it is heard of
    rig.fabric.heal({0, 1});
    rig.link(0, 1, true);
    CHECK(shows(rig, 0, {1, 1, 1}));
    CHECK(Rig::within(kLimitNs, [&] { return home(1); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    CHECK(spread(0));
  }
  void lose(int nic) {
    rig.fabric.cut({0, nic}, Cut::Hold);
    rig.link(0, nic, false);
  }
  bool home(size_t which) const { return says(which, "\"cause\":\"failback\""); }
  bool spread(size_t which) const { return says(which, "\"shares\""); }
  const check::Scratch scratch;

 private:
  const std::string file_ = scratch / "events";
  void connect() {
    Stream& stream = rig.stream(0, 1, 1, UINT64_MAX / 2);
    CHECK(Rig::within(kLimitNs, [&] {
      stream.sender->step(), stream.receiver->step();
      return stream.receiver->done() > 0;
    }));
  }
  bool says(size_t which, const std::string& what) const {
    const auto lines = lastOfSenders(file_);
    const auto it = std::next(lines.begin(), static_cast<long>(which));
    return lines.size() == 2 && it->second.find(what) != std::string::npos;
  }
  static RigOptions options(const std::string& file) {
    RigOptions o;
    o.mode = 2;
    o.eventFile = file;
    return o;
  }

 public:
  Rig rig;
};

/// As NCCL's thread that connects for a schedule, or for none.
void onThread(uint32_t mark, const std::function<void()>& connect) {
  std::thread([&] {
    connectsFor(mark);
    connect();
  }).join();
}

}  // namespace

TEST(net_what_a_schedule_connected_comes_home_when_no_schedule_runs) {
  Away away;
  away.rig.health(0).uneven(-1, 1, false);
  CHECK(Rig::within(kLimitNs, [&] { return away.home(0); }));
  finish(away.rig);
}

TEST(net_what_a_schedule_connected_comes_home_with_the_next_schedule) {
  Away away;
  away.rig.health(0).uneven(0, 1, false);
  CHECK(Rig::within(kLimitNs, [&] { return away.home(0); }));
  finish(away.rig);
}

TEST(net_what_a_schedule_connected_comes_home_when_it_loses_more) {
  Away away;
  away.lose(2);
  CHECK(Rig::within(kLimitNs, [&] { return away.home(0); }));
  finish(away.rig);
}

TEST(net_what_a_lost_nic_had_is_spread_anew_when_connections_come) {
  // Each one that lost its home is welcomed while the others' homes seem to differ in what they carry. Of three, two
  // go round the NICs that are left, and one is spread.
  const check::Scratch scratch;
  RigOptions o;
  o.assumedDown = 0;
  o.mode = 2;
  o.bytes = 4096;
  o.eventFile = scratch / "events";
  Rig rig(o);
  const auto moved = [&] {
    for (Stream& stream : rig.streams()) stream.sender->step(), stream.receiver->step();
    return rig.streams().back().receiver->done() > 0;
  };
  for (const int rail : {1, 1, 2, 0, 2, 0, 0}) {
    const Stream& stream = rig.stream(0, 1, rail, UINT64_MAX / 2);
    limit(stream, 20);
    CHECK(Rig::within(kLimitNs, moved));
  }
  rig.start();
  const auto evenly = [&] {
    int both = 0;
    for (const auto& [connection, line] : lastOfSenders(o.eventFile)) {
      const size_t shares = line.find("\"shares\":");
      if (shares == std::string::npos) continue;
      both += line.find(":1,", shares) != std::string::npos && line.find(":1\"", shares) != std::string::npos ? 1 : 0;
    }
    return both == 1;
  };
  CHECK(goesOnUntil(rig, rig.streams().size(), 100, evenly));  // it is known then that all carry as much
  for (const Stream& stream : rig.streams()) limit(stream, UINT64_MAX / 2);
  finish(rig);
}

/// Four NICs with two connections each, of which as many are lost as the case says, and messages that each had so far.
/// Of each connection: the rail it is on then, - where it is on several.
TEST(net_what_lost_nics_had_goes_round_those_that_are_left) {
  struct Case {
    std::vector<int> lost;
    std::vector<uint64_t> had;
    std::string rails;
  };
  const std::vector<uint64_t> alike(8, 100);
  const std::vector<Case> cases = {
      {{1, 3}, alike, "0 0 2 2 0 0 2 2"},  // four over two: all go whole, by turns
      {{1}, alike, "0 - 2 3 0 - 2 3"},     // two over three: both are spread
      {{0, 1}, alike, "2 3 2 3 2 3 2 3"},
      {{0, 1, 3}, alike, "2 2 2 2 2 2 2 2"},                                  // one is left
      {{1, 3}, {100, 100, 100, 400, 100, 100, 100, 400}, "0 0 2 0 0 2 2 2"},  // those with as much go round
      {{1, 3}, {100, 100, 100, 100, 100, 400, 100, 100}, "0 0 2 2 0 - 2 -"},
      {{1, 3}, {100, 100, 100, 90, 100, 80, 100, 100}, "0 0 2 2 0 0 2 2"},
  };
  for (const Case& c : cases) {
    const check::Scratch scratch;
    RigOptions o;
    o.rails = 4, o.mode = 2, o.bytes = 4096;
    o.eventFile = scratch / "events";
    Rig rig(o);
    for (size_t i = 0; i < c.had.size(); i++) {
      const Stream& stream = rig.stream(0, 1, static_cast<int>(i % 4), UINT64_MAX / 2);
      limit(stream, c.had[i]);
    }
    rig.start();
    for (size_t i = 0; i < c.had.size(); i++) {
      CHECK(Rig::within(kLimitNs, [&] { return rig.streams()[i].sender->done() >= c.had[i]; }));
    }
    for (const int nic : c.lost) rig.fabric.cut({0, nic}, Cut::Hold);
    for (const int nic : c.lost) rig.link(0, nic, false);
    if (!Rig::within(kLimitNs, [&] { return railsOf(o.eventFile) == c.rails; }))
      CHECK_EQ(railsOf(o.eventFile), c.rails);
    for (const Stream& stream : rig.streams()) limit(stream, UINT64_MAX / 2);
    for (const Stream& stream : rig.streams()) {
      CHECK(Rig::within(kLimitNs, [&] { return stream.receiver->done() > 500; }));
    }
    finish(rig);
  }
}

/// One that rests for longer than 2 s while NICs are lost has its place among the others.
TEST(net_what_rests_when_its_nic_is_lost_goes_round_with_the_others) {
  const check::Scratch scratch;
  RigOptions o;
  o.rails = 4, o.mode = 2, o.bytes = 4096;
  o.eventFile = scratch / "events";
  Rig rig(o);
  for (const int rail : {1, 1, 3, 3}) limit(rig.stream(0, 1, rail, UINT64_MAX / 2), 1000);
  rig.start();
  for (const Stream& s : rig.streams()) CHECK(Rig::within(kLimitNs, [&] { return s.receiver->done() >= 1000; }));
  for (uint64_t more = 1; more < 24; more++) {
    for (const size_t i : {0, 1, 2}) limit(rig.streams()[i], 1000 + more);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (const int nic : {1, 3}) rig.fabric.cut({0, nic}, Cut::Hold);
  for (const int nic : {1, 3}) rig.link(0, nic, false);
  const auto roundTwo = [](const std::string& rails) { return rails == "0 2 0 2" || rails == "2 0 2 0"; };
  CHECK(goesOnUntil(rig, 3, 1030, [&] { return roundTwo(railsOf(o.eventFile)); }));
  finish(rig);
}

/// Where a NIC is lost from the start, nothing is known of what connections carry when the first of them do.
TEST(net_what_a_nic_had_that_was_lost_from_the_start_goes_round_once_it_is_known) {
  const check::Scratch scratch;
  RigOptions o;
  o.assumedDown = 1;
  o.mode = 2, o.bytes = 4096;
  o.eventFile = scratch / "events";
  Rig rig(o);
  limit(rig.stream(0, 1, 1, UINT64_MAX / 2), 20);
  limit(rig.stream(0, 1, 1, UINT64_MAX / 2), 0);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.streams()[0].receiver->done() >= 20; }));
  limit(rig.streams()[1], 2);
  CHECK(Rig::within(kLimitNs, [&] { return railsOf(o.eventFile) == "- -"; }));
  CHECK(goesOnUntil(rig, 2, 100, [&] { return railsOf(o.eventFile) == "0 2" || railsOf(o.eventFile) == "2 0"; }));
  finish(rig);
}

/// Connections at home on NIC 1 of three, which goes. The first three are made for schedules, with turns 0, 1 and 2.
TEST(net_what_a_schedule_connected_takes_one_other_nic_each_in_turn) {
  const check::Scratch scratch;
  RigOptions o;
  o.mode = 2;
  o.eventFile = scratch / "events";
  Rig rig(o);
  const auto connect = [&] {
    Stream& stream = rig.stream(0, 1, 1, UINT64_MAX / 2);
    CHECK(Rig::within(kLimitNs, [&] {
      stream.sender->step(), stream.receiver->step();
      return stream.receiver->done() > 0;
    }));
  };
  for (const int turn : {0, 1, 2}) {
    rig.health(0).scheduleConnects(1, {1, UINT64_MAX, turn});
    rig.health(0).scheduleConnects(1, {2, UINT64_MAX, turn + 1});  // another communicator's, at the same time
    onThread(markOf(1), connect);
    rig.health(0).scheduleConnects(-1, {1});
    rig.health(0).scheduleConnects(-1, {2});
  }
  rig.health(0).scheduleConnects(1, {1, UINT64_MAX, 0});
  onThread(kNoSchedule, connect);  // another communicator's, meanwhile
  rig.health(0).scheduleConnects(-1, {1});
  rig.start();
  // On which rail each is, of the first ones.
  const auto are = [&](const std::string& wanted) {
    return Rig::within(kLimitNs, [&] { return railsOf(o.eventFile).substr(0, wanted.size()) == wanted; });
  };
  rig.fabric.cut({0, 1}, Cut::Hold);
  rig.link(0, 1, false);
  CHECK(are("- - - -"));
  rig.health(0).uneven(1, 1, true);
  CHECK(are("0 2 0 -"));
  // Another schedule, whose plan is not in turn, comes and goes.
  for (const int begins : {1, 0, -1}) {
    rig.health(0).uneven(begins, 2, false);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(are("0 2 0 -"));
  }
  rig.health(0).uneven(0, 1, false);
  CHECK(are("- - - -"));
  rig.health(0).uneven(0, 1, true);
  CHECK(are("0 2 0 -"));
  // With one of these gone, too, one is left for all.
  rig.fabric.cut({0, 2}, Cut::Hold);
  rig.link(0, 2, false);
  CHECK(are("0 0 0"));
  rig.health(0).uneven(-1, 1, false);
  finish(rig);
}

/// Lanes in reserve were made on the NICs that were left while another one was away.
TEST(net_what_a_lost_nic_had_is_spread_also_over_nics_that_came_back) {
  const check::Scratch scratch;
  RigOptions o;
  o.mode = 1;
  o.eventFile = scratch / "events";
  Rig rig(o);
  for (int i = 0; i < 4; i++) rig.stream(0, 1, 1, UINT64_MAX / 2);
  rig.start();
  const auto away = [&](int nic, bool gone) {
    if (gone) rig.fabric.cut({0, nic}, Cut::Hold);
    if (!gone) rig.fabric.heal({0, nic});
    rig.link(0, nic, !gone);
  };
  // How many senders are on each rail.
  const auto are = [&](const std::vector<long>& wanted) {
    return Rig::within(kLimitNs, [&] {
      const std::string rails = railsOf(o.eventFile);
      std::vector<long> there;
      for (const char rail : {'0', '1', '2'}) there.push_back(std::count(rails.begin(), rails.end(), rail));
      return there == wanted;
    });
  };
  CHECK(are({0, 4, 0}));
  for (const int other : {2, 0, 2}) {
    away(other, true);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    away(other, false);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    away(1, true);
    CHECK(are({2, 0, 2}));
    away(1, false);
    CHECK(are({0, 4, 0}));
  }
  finish(rig);
}

TEST(net_schedules_that_connect_at_the_same_time_are_told_apart) {
  HealthBoard board;
  const auto made = [&board](uint32_t mark) {
    ScheduleConnection found;
    onThread(mark, [&] { found = board.scheduleConnection(); });
    return found;
  };
  constexpr uint64_t kOne = 0xfedcba9876543210, kOther = 0xfedcba9876543211;
  board.scheduleConnects(1, {kOne, 1000, 3});
  board.scheduleConnects(1, {kOne, 1000, 3});  // two ranks of it
  board.scheduleConnects(1, {kOther, 2000, -1});
  CHECK_EQ(made(markOf(kOne)).schedule, kOne);
  CHECK_EQ(made(markOf(kOne)).window, 1000U);
  CHECK_EQ(made(markOf(kOne)).turn, 3);
  CHECK_EQ(made(markOf(kOther)).schedule, kOther);
  CHECK_EQ(made(kNoSchedule).schedule, 0U);
  CHECK_EQ(board.scheduleConnection().schedule, kOther);  // who says nothing has what came last
  board.scheduleConnects(0, {kOne, 1000, 4});
  CHECK_EQ(made(markOf(kOne)).turn, 4);
  board.scheduleConnects(-1, {kOne});
  CHECK_EQ(made(markOf(kOne)).schedule, kOne);
  board.scheduleConnects(-1, {kOne});
  CHECK_EQ(made(markOf(kOne)).schedule, 0U);
  CHECK_EQ(made(markOf(kOther)).schedule, kOther);
  board.scheduleConnects(-1, {kOther});
  CHECK_EQ(board.scheduleConnection().schedule, 0U);
}
