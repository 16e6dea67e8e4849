// What one detection means for everybody: idle connections, the other end, and where the fault is said to be.
#include <atomic>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "budget.h"
#include "check.h"
#include "engine/turns.h"
#include "rig/faults.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);

/// A file for one rig's events, gone with the object.
struct Events {
  /// How many lines hold all of these.
  int count(const std::vector<std::string>& parts) const {
    std::ifstream in(path);
    std::string line;
    int n = 0;
    while (std::getline(in, line)) {
      bool all = true;
      for (const std::string& part : parts) all &= line.find(part) != std::string::npos;
      n += all ? 1 : 0;
    }
    return n;
  }

  const check::Scratch folder;
  const std::string path = folder / "events";
};

std::string quoted(const char* key, const std::string& value) {
  return std::string("\"") + key + "\":\"" + value + "\"";
}

/// Three hosts; host 0 sends to both others over rail 0, and only the stream to host 1 has traffic afterwards.
void threeHosts(Rig& rig) {
  const Stream& busy = rig.stream(0, 1, 0, 4000);
  busy.sender->limit = busy.receiver->limit = 100;
  rig.stream(0, 2, 0, 400);
  rig.streams()[1].sender->limit = rig.streams()[1].receiver->limit = 100;
  rig.stream(1, 2, 1, 400);
  rig.streams()[2].sender->limit = rig.streams()[2].receiver->limit = 100;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 300; }));
}

RigOptions options(const Events& events) {
  RigOptions o;
  o.hosts = 3;
  o.eventFile = events.path;
  return o;
}

void lift(Rig& rig, size_t stream) {
  rig.streams()[stream].sender->limit = rig.streams()[stream].receiver->limit = UINT64_MAX;
}

void finish(Rig& rig) {
  for (size_t i = 0; i < rig.streams().size(); i++) lift(rig, i);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.fabric.healAll();
}

}  // namespace

TEST(net_one_detection_moves_idle_connections) {
  Events events;
  Rig rig(options(events));
  threeHosts(rig);
  const int freezes = rig.seen(Type::Freeze);
  rig.fabric.cut({0, 0}, Cut::Hold);  // silent: host 0's NIC on rail 0 carries nothing any more
  lift(rig, 0);                       // only the stream to host 1 notices by itself
  CHECK(Rig::within(msToNs(2000) * check::slowness(), [&] { return rig.seen(Type::Freeze) >= freezes + 2; }));
  // The stream to host 2 is idle all the while, and moved.
  CHECK(Rig::within(msToNs(2000) * check::slowness(), [&] {
    return events.count({quoted("event", "path"), quoted("peer", "127.0.1.3"), quoted("cause", "probe"),
                         quoted("state", "active")}) >= 1;
  }));
  finish(rig);
}

TEST(net_one_detection_moves_idle_connections_to_a_host_that_was_late) {
  Events events;
  RigOptions o = options(events);
  o.hosts = 4;
  Rig rig(o);
  std::atomic<bool> late{false};
  rig.spy = [&](int host, const NicAddress&, const std::vector<uint8_t>&) {
    while (host == 2 && late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  for (const auto& [from, to] : {std::pair{0, 1}, std::pair{0, 2}, std::pair{3, 1}}) {
    const Stream& stream = rig.stream(from, to, 0, 400);
    stream.sender->limit = stream.receiver->limit = 100;
  }
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 300; }));
  late = true;
  rig.fabric.cut({0, 0}, Cut::Hold);
  lift(rig, 0);
  CHECK(Rig::within(kLimitNs, [&] { return events.count({quoted("state", "located")}) >= 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // long enough that nobody is asked any more
  late = false;
  CHECK(Rig::within(msToNs(2000) * check::slowness(), [&] {
    return events.count({quoted("event", "path"), quoted("peer", "127.0.1.3"), quoted("cause", "probe"),
                         quoted("state", "active")}) >= 1;
  }));
  finish(rig);
}

TEST(net_who_sends_to_a_silent_nic_moves_before_it_has_traffic) {
  Events events;
  Rig rig(options(events));
  rig.stream(0, 1, 0, 400);
  rig.stream(2, 0, 0, 400);
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = 100;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 200; }));
  rig.fabric.cut({0, 0}, Cut::Hold);
  lift(rig, 0);  // host 0 notices, and host 2, which nobody told to look, is idle
  CHECK(Rig::within(msToNs(2000) * check::slowness(), [&] {
    return events.count({quoted("event", "path"), quoted("direction", "send"), quoted("peer", "127.0.1.1"),
                         quoted("cause", "probe"), quoted("state", "active")}) >= 1;
  }));
  CHECK(rig.seen(Type::LookAt) >= 1);
  finish(rig);
}

namespace {

/// Whether what is silent on the path to host 1 is located at `where`. False: the hosts were too late to locate it.
bool isLocated(const std::function<void(Rig& rig)>& silence, const char* where) {
  Events events;
  Turns turns;
  Rig rig(options(events));
  turns.watch(rig);
  threeHosts(rig);
  turns.begin();
  silence(rig);
  const auto says = [&](const char* place) {
    return events.count({quoted("state", "located"), quoted("peer", "127.0.1.2"), quoted("where", place)});
  };
  // Of these the last two stay: a NIC that is blamed wrongly becomes "link".
  CHECK(Rig::within(kLimitNs, [&] { return says(where) + says("unknown") + says("link") >= 1; }));
  const bool onTime = turns.onTime({0, 1});
  const int there = says(where);
  CHECK(there == 1 || (there == 0 && !onTime));
  finish(rig);
  return there >= 1;
}

}  // namespace

TEST(net_silent_death_is_located) {
  struct Where {
    std::vector<Nic> cut;
    const char* where;
  };
  const Where cases[] = {{{{0, 0}}, "local_nic"}, {{{1, 0}}, "remote_nic"}, {{}, "link"}};
  for (const Where& c : cases) {
    const auto silence = [&](Rig& rig) {
      for (const Nic& nic : c.cut) rig.fabric.cut(nic, Cut::Hold);
      if (c.cut.empty()) rig.fabric.cutOneWay({0, 0}, {1, 0}), rig.fabric.cutOneWay({1, 0}, {0, 0});
      lift(rig, 0);
    };
    CHECK(onceOnTime([&] { return isLocated(silence, c.where); }));
  }
}

/// As where the others get no CPU: nobody answers the first questions.
TEST(net_silent_death_is_located_when_the_first_answer_is_late) {
  const auto silence = [](Rig& rig) {
    for (const Type type : {Type::PathDead, Type::LookAt}) rig.loseType(type, true);
    rig.fabric.cut({0, 0}, Cut::Hold);
    lift(rig, 0);
    CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::PathDead) >= 3; }));  // over every path
    const int pings = rig.seen(Type::Ping);
    CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Ping) >= pings + 10; }));
    for (const Type type : {Type::PathDead, Type::LookAt}) rig.loseType(type, false);
  };
  CHECK(onceOnTime([&] { return isLocated(silence, "local_nic"); }));
}

TEST(net_a_dead_link_says_whose) {
  Events events;
  Rig rig(options(events));
  threeHosts(rig);
  rig.fabric.cut({1, 0}, Cut::Hold);
  rig.link(1, 0, false);
  lift(rig, 0);
  CHECK(Rig::within(msToNs(3000) * check::slowness(),
                    [&] { return events.count({quoted("state", "down"), quoted("cause", "peer")}) >= 1; }));
  rig.fabric.heal({1, 0});
  rig.link(1, 0, true);
  finish(rig);
}

TEST(net_a_large_message_on_its_way_is_no_reason_to_probe) {
  RigOptions o;
  o.samples = true;
  Rig rig(o);
  const Stream& stream = rig.stream(0, 1, 0, 400);
  stream.sender->limit = 104;
  stream.receiver->limit = 100;  // four are on their way
  rig.fabric.heardAgo(0);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 100; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const int pings = rig.seen(Type::Ping);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // On a busy machine it is half a second, and the peer is asked whether it lives, by every path. Probes would be
  // dozens.
  CHECK(rig.seen(Type::Ping) <= pings + 6);
  rig.fabric.heardAgo(msToNs(1000));  // now it stands still: the other end is late, or the path is gone
  CHECK(Rig::within(msToNs(2000), [&] { return rig.seen(Type::Ping) >= pings + 10; }));
  CHECK_EQ(rig.seen(Type::Suspect), 0);
  finish(rig);
}

TEST(net_one_that_waits_beside_one_that_moves_is_no_reason_to_probe) {
  Rig rig({});
  // Of a path that is suspect, and of those beside it. Others ask whether UDP passes, where an answer was late.
  std::atomic<int> probes{0};
  rig.spy = [&probes](int, const NicAddress&, const std::vector<uint8_t>& bytes) {
    if (const auto parsed = Parsed::open(bytes.data(), bytes.size())) {
      parsed->forEach([&](Type type, Reader& reader) {
        uint32_t round = kNoRound;
        if (type == Type::Ping) reader(round);
        probes += round != kNoRound && round < kDataRound ? 1 : 0;
      });
    }
  };
  rig.stream(0, 1, 0, 400);
  rig.stream(0, 1, 0, 4000);
  const Stream &waits = rig.streams()[0], &moves = rig.streams()[1];
  waits.sender->limit = waits.receiver->limit = moves.sender->limit = moves.receiver->limit = 100;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 200; }));
  waits.sender->limit = 104;  // four are on their way, and nobody takes them
  uint64_t limit = 100;
  int needless = 0, steady = 0;
  // A host that hears of nothing for a while may probe, and it is the sender's that has to hear. Each turn begins where
  // the one before ended: between two acknowledgements in short turns are less than two of those.
  int64_t before = nowNs(), slowUntil = before + msToNs(50);
  int probesBefore = probes;
  for (const int64_t end = before + msToNs(4000); steady < 200 && limit < 3900 && before < end;) {
    moves.sender->limit = moves.receiver->limit = ++limit;
    CHECK(Rig::within(kLimitNs, [&] { return moves.sender->done() >= limit && moves.receiver->done() >= limit; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const int probesAfter = probes;
    const int64_t after = nowNs();
    if (after - before >= msToNs(4)) slowUntil = after + msToNs(50);
    if (after >= slowUntil) needless += probesAfter - probesBefore, steady++;
    before = after, probesBefore = probesAfter;
  }
  CHECK_EQ(needless, 0);
  const int now = probes;
  CHECK(Rig::within(msToNs(2000) * check::slowness(), [&] { return probes >= now + 10; }));  // now nothing moves
  finish(rig);
}

/// Nothing probes a path that moves, and still a connection's last acknowledgement, lost, must not be waited for.
TEST(net_a_lost_acknowledgement_is_asked_for_beside_traffic) {
  RigOptions o;
  o.plain = true;
  o.bytes = kSlotBytes;  // no copies
  o.confirms = false;    // as a connection of several sockets
  Rig rig(o);
  for (int i = 0; i < 5; i++) rig.stream(0, 1, 0, 1000000);
  const Stream& waits = rig.streams()[0];
  waits.sender->limit = waits.receiver->limit = 100;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return waits.sender->done() == 100; }));
  int asked = 0;
  for (uint64_t number = 101; number <= 5000 && asked < 3; number++) {  // of 200 it was once two, on a busy machine
    rig.loseType(Type::Ack, true);
    waits.sender->limit = waits.receiver->limit = number;
    CHECK(Rig::within(kLimitNs, [&] { return waits.receiver->done() == number; }));
    rig.loseType(Type::Ack, false);
    const int pings = rig.seen(Type::Ping), questions = rig.seen(Type::CloseLane);
    const bool soon = Rig::within(msToNs(1000), [&] { return waits.sender->done() == number; });
    CHECK(soon || (check::sanitized() && Rig::within(kLimitNs, [&] { return waits.sender->done() == number; })));
    // Where the others' were lost as well, all stood still and the path was probed.
    asked += soon && rig.seen(Type::Ping) == pings && rig.seen(Type::CloseLane) > questions ? 1 : 0;
  }
  CHECK_EQ(asked, 3);
  rig.stop();
  for (const Stream& stream : rig.streams()) CHECK_EQ(stream.receiver->wrong(), "");
}

TEST(net_a_neighbours_suspicion_is_no_verdict) {
  Events events;
  Rig rig(options(events));
  threeHosts(rig);
  rig.fabric.cutOneWay({0, 0}, {1, 0});  // only this link: what host 0 has to host 2 on the same NIC stays
  lift(rig, 0);
  const std::vector<std::string> located = {quoted("state", "located")};
  CHECK(Rig::within(msToNs(3000) * check::slowness(), [&] { return events.count(located) >= 1; }));
  CHECK_EQ(events.count({quoted("event", "nic"), quoted("peer", "127.0.1.3"), quoted("state", "down")}), 0);
  finish(rig);
}

TEST(net_a_black_hole_is_found_where_a_host_is_always_late) {
  for (const int slow : {0, 1}) {
    Rig rig({});
    std::atomic<bool> busy{false};
    rig.spy = [&, slow](int host, const NicAddress&, const std::vector<uint8_t>&) {
      if (host == slow && busy) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    };
    rig.stream(0, 1, 0, 400);
    rig.streams()[0].sender->limit = rig.streams()[0].receiver->limit = 200;
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 200; }));
    busy = true;
    rig.fabric.cut({0, 0}, Cut::Hold);
    const int freezes = rig.seen(Type::Freeze);
    lift(rig, 0);
    CHECK(Rig::within(msToNs(5000) * check::slowness(), [&] { return rig.seen(Type::Freeze) > freezes; }));
    busy = false;
    finish(rig);
  }
}

TEST(net_answers_do_not_go_where_the_way_back_is_lost) {
  Events events;
  RigOptions o;
  o.rails = 4;
  o.eventFile = events.path;
  Rig rig(o);
  for (int i = 0; i < 8; i++) {
    rig.stream(0, 1, 0, 400);
    rig.streams().back().sender->limit = rig.streams().back().receiver->limit = 100;
  }
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 800; }));
  for (int rail = 0; rail < 3; rail++) rig.fabric.cutOneWay({1, rail}, {0, rail});
  const int64_t start = nowNs();
  for (size_t i = 0; i < rig.streams().size(); i++) lift(rig, i);
  CHECK(rig.allDone(kLimitNs));
  std::fprintf(stderr, "done after %lld ms\n", static_cast<long long>((nowNs() - start) / 1000000));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.fabric.healAll();
}

TEST(net_who_shares_a_slow_nic_sees_it_sooner) {
  // Host 0 sends to host 1 and host 2 to host 0. When host 0 is sure that its NIC is a little slow, host 2 has a part
  // of the evidence that it would need alone, and moves at once.
  const auto apartMs = [] {
    Events events;
    RigOptions o = options(events);
    o.rails = 4, o.mode = 2, o.samples = true;
    Rig rig(o);
    for (int host = 0; host < 3; host++) {
      for (int rail = 0; rail < 4; rail++) rig.fabric.carries({host, rail}, 1.0);
    }
    for (int rail = 0; rail < 4; rail++) rig.stream(0, 1, rail, 400), rig.stream(2, 0, rail, 400);
    for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = 100;
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 800; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(700));  // all are well for five windows and more
    rig.fabric.carries({0, 0}, 0.7);
    std::this_thread::sleep_for(std::chrono::milliseconds(230));
    rig.fabric.carries({2, 0}, 0.7);  // as host 2 sees the same NIC
    const auto seen = [&](const char* peer) {
      return events.count({quoted("state", "degraded"), quoted("peer", peer)}) >= 1;
    };
    CHECK(Rig::within(kLimitNs, [&] { return seen("127.0.1.2"); }));
    const int64_t first = nowNs();
    CHECK(Rig::within(kLimitNs, [&] { return seen("127.0.1.1"); }));
    const int64_t apart = nowNs() - first;
    CHECK(rig.seen(Type::Slow) >= 2);
    finish(rig);
    return apart / 1000000;
  };
  int64_t best =
      INT64_MAX;  // alone it would take 200 ms and more; a machine that is busy with others may take any time
  for (int i = 0; i < 5 && best > 100; i++) best = std::min<int64_t>(best, apartMs());
  CHECK(best <= 100);
}
