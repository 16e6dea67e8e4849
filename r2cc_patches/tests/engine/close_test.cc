// NCCL aborts: it takes its memory back and closes, whatever a connection is doing, and its user waits for that. And
// peers that are gone, or only seem to be.
#include <chrono>

#include "budget.h"
#include "check.h"
#include "nic/topology.h"
#include "rig/door.h"
#include "rig/faults.h"
#include "rig/hostile.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);
// 500 is the promise. Who waited for copies or for a transport's close would need 2000.
int64_t abortLimitNs() { return msToNs(1200) * check::slowness(); }
constexpr uint64_t kMany = 100000000;

void pauseMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

enum class Kind { Buffered, Kept, Direct };
constexpr Kind kKinds[] = {Kind::Buffered, Kind::Kept, Kind::Direct};

RigOptions options(Kind kind, int rails) {
  RigOptions o;
  o.rails = rails;
  o.needsAck = kind != Kind::Direct;
  o.plain = kind == Kind::Kept;
  o.anyOrder = o.drains = kind == Kind::Direct;
  return o;
}

std::string lines(const std::vector<std::string>& all) {
  std::string out;
  for (const std::string& line : all) out += line + "\n";
  return out;
}

/// Brings a rig whose messages flow into some state that lasts.
using Enter = void (*)(Rig&);

void hold(Rig& rig) {
  for (int rail = 0; rail < 2; rail++) inject(rig, Fault::LinkAtBoth, rail, Cut::Hold);
  pauseMs(50);
}

void freezeForGood(Rig& rig) {
  rig.loseType(Type::OpenLane, true);
  for (int rail = 0; rail < 2; rail++) inject(rig, Fault::ErrorAtSender, rail, Cut::Lose);
  pauseMs(50);
}

void exchange(Rig& rig) {
  const int before = rig.seen(Type::Fenced);
  rig.loseType(Type::Fenced, true);
  inject(rig, Fault::ErrorAtSender, 0, Cut::Lose);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Fenced) > before; }));
}

void switchPlans(Rig& rig) {
  rig.loseType(Type::Switched, true);
  inject(rig, Fault::LinkAtBoth, 0, Cut::Hold);
  pauseMs(20);
  const int before = rig.seen(Type::Switched);
  revert(rig, Fault::LinkAtBoth, 0);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Switched) > before; }));
}

/// The receiver asks for nothing more, so that the sender has more to send than it may.
void fill(Rig& rig) {
  rig.streams()[0].receiver->askBelow = 0;
  pauseMs(30);
}

/// Everything is closed as NCCL does it, and the last communicator with it, at each end; the longer of the two, in ns.
int64_t abortNs(Rig& rig) {
  rig.stop();
  int64_t longest = 0;
  for (const int host : {0, 1}) {
    const int64_t start = nowNs();
    for (const Stream& s : rig.streams()) (host == s.from ? s.sender : s.receiver)->close();
    rig.endEngine(host);
    longest = std::max(longest, nowNs() - start);
  }
  return longest;
}

void abortsAtOnce(Enter enter) {
  for (const Kind kind : kKinds) {
    Rig rig(options(kind, 2));
    rig.stream(0, 1, 0, kMany);
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100; }));
    enter(rig);
    fill(rig);
    CHECK(abortNs(rig) < abortLimitNs());
    CHECK(rig.fabric.counts().clean());
    for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
  }
}

bool fails(End& end) { return end.step(), end.state() == End::State::Failed; }

/// A stream rests there: TCP passes, and what refuses it later is the host.
bool knowsTcp(Engine& engine) { return EngineDoor::everyStream(engine) > EngineDoor::streams(engine); }

}  // namespace

TEST(net_abort_while_active) {
  abortsAtOnce([](Rig&) {});
}
TEST(net_abort_while_holding) { abortsAtOnce(hold); }
TEST(net_abort_while_frozen) { abortsAtOnce(freezeForGood); }
TEST(net_abort_while_exchanging) { abortsAtOnce(exchange); }
TEST(net_abort_while_switching) { abortsAtOnce(switchPlans); }

TEST(net_abort_while_connecting) {
  for (const Type lost : {Type::Welcome, Type::LaneHandle, Type::LaneUp, Type::Fenced}) {
    for (const Kind kind : kKinds) {
      Rig rig(options(kind, 1));
      rig.loseType(lost, true);
      rig.stream(0, 1, 0, kMany);
      rig.start();
      pauseMs(50);
      CHECK_EQ(rig.delivered(), 0u);
      CHECK(abortNs(rig) < abortLimitNs());
      CHECK(rig.fabric.counts().clean());
    }
  }
}

/// All that it asked for is done, and the peer's word that all came is lost: as at a good end, which waits. Where NCCL
/// says that it aborts, it does not; unless another communicator ended well after that.
TEST(net_abort_of_a_rank_with_nothing_left) {
  enum class Said : uint8_t { Nothing, Abort, AbortThenGood };
  for (const Said said : {Said::Nothing, Said::Abort, Said::AbortThenGood}) {
    Rig rig(options(Kind::Kept, 2));
    rig.loseType(Type::Ack, true);
    const Stream& s = rig.stream(0, 1, 0, 20);
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() == 20 && rig.delivered() == 20; }));
    rig.stop();
    const int64_t start = nowNs();
    s.sender->close();
    if (said != Said::Nothing) rig.engine(0).abort(true);
    if (said == Said::AbortThenGood) rig.engine(0).abort(false);
    rig.endEngine(0);
    const int64_t took = nowNs() - start;
    CHECK(said == Said::Abort ? took < abortLimitNs() : took >= msToNs(2000));
    CHECK_EQ(s.receiver->wrong(), "");
  }
}

/// A lane may break before the receiver's Bye is here: that is no failure of a healthy job.
TEST(net_a_lane_that_breaks_at_the_end_is_no_failover) {
  for (const bool ends : {true, false}) {
    Rig rig(options(Kind::Kept, 2));
    rig.stream(0, 1, 0, 20);
    const auto counted = [&] { return rig.engine(0).endLine().find("1 connection failure") != std::string::npos; };
    rig.loseType(Type::Ack, true);  // so that the sender looks at its lane
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 20; }));
    exchange(rig);
    CHECK(!counted());
    if (ends) rig.stop(), rig.streams()[0].receiver->close();
    if (ends) CHECK(Rig::within(kLimitNs, [&] { return EngineDoor::sending(rig.engine(0)) == 0; }));
    rig.loseType(Type::Fenced, false);
    if (!ends) CHECK(Rig::within(kLimitNs, counted));
    CHECK_EQ(counted(), !ends);
  }
}

/// Its lanes break, and its ports take nothing any more: that is told by these two, not by the time it is silent.
TEST(net_a_process_that_ends_is_told_by_its_lanes_and_ports) {
  for (const int rails : {1, 3}) {
    for (const int host : {0, 1}) {
      for (const bool udp : {true, false}) {
        Rig rig(options(Kind::Kept, rails));
        rig.stream(0, 1, 0, kMany);
        rig.start();
        CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100 && knowsTcp(rig.engine(1)); }));
        const Stream& s = rig.streams()[0];
        rig.stop();
        rig.loseUdp = !udp;
        rig.endEngine(host);
        End& left = *(host == 0 ? s.receiver : s.sender);
        CHECK(Rig::within(kLimitNs, [&] { return fails(left); }));
        const auto said = rig.warnings();
        CHECK(said.size() == 1 && said[0].find("its lanes broke, and its host refuses") != std::string::npos);
        CHECK_EQ(s.receiver->wrong(), "");
      }
    }
  }
}

/// A stream whose end was lost is up, and hears nothing: its port is asked beside it.
TEST(net_a_process_that_ends_is_told_beside_a_stream_that_hears_nothing) {
  for (const int host : {0, 1}) {
    Rig rig(options(Kind::Kept, 1));
    rig.stream(0, 1, 0, kMany);
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100; }));
    rig.loseUdp = true;
    CHECK(Rig::within(kLimitNs, [&] { return EngineDoor::streams(rig.engine(1 - host)) > 0; }));
    const uint64_t before = rig.delivered();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > before + 100; }));
    rig.stop();
    EngineDoor::deafen(rig.engine(1 - host));
    rig.endEngine(host);
    const Stream& s = rig.streams()[0];
    const auto told = [&] { return fails(host == 0 ? *s.receiver : *s.sender); };
    CHECK(Rig::within(msToNs(2000) * check::slowness(), told));
    const std::string said = lines(rig.warnings());
    CHECK_EQ(said.find("its lanes broke, and its host refuses") == std::string::npos ? said : "", "");
  }
}

/// What was lost on its way is sent again by the dead process's kernel for long: it is not waited for where something
/// else that was asked for lies on a lane that ended.
TEST(net_a_process_that_ends_is_told_beside_a_lane_that_stands_still) {
  Rig rig(options(Kind::Kept, 2));
  for (int rail = 0; rail < 2; rail++) rig.stream(0, 1, rail, kMany);
  rig.start();
  const auto flows = [&] { return rig.streams()[0].receiver->done() > 100 && rig.streams()[1].receiver->done() > 100; };
  CHECK(Rig::within(kLimitNs, [&] { return flows() && knowsTcp(rig.engine(1)); }));
  rig.fabric.stand({0, 1}, true);
  pauseMs(20);
  rig.stop();
  rig.endEngine(0);
  CHECK(Rig::within(kLimitNs, [&] { return fails(*rig.streams()[0].receiver) && fails(*rig.streams()[1].receiver); }));
  for (const std::string& said : rig.warnings()) {
    CHECK_EQ(said.find("its lanes broke, and its host refuses") == std::string::npos ? said : "", "");
  }
}

/// Nothing is asked for on it for long where shares are uneven, and so its end is not read.
TEST(net_a_process_that_ends_is_told_beside_a_lane_that_rests) {
  RigOptions o = options(Kind::Kept, 2);
  o.mode = 2, o.samples = true;
  Rig rig(o);
  rig.stream(0, 1, 0, kMany), rig.stream(0, 1, 1, kMany);
  for (int rail = 0; rail < 2; rail++) rig.fabric.carries({0, rail}, 1.0);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100 && knowsTcp(rig.engine(1)); }));
  pauseMs(400);
  const int switches = rig.seen(Type::Switched);
  rig.fabric.carries({0, 0}, 0.05);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Switched) > switches; }));
  pauseMs(100);
  rig.stop();
  rig.endEngine(0);
  CHECK(Rig::within(kLimitNs, [&] { return fails(*rig.streams()[0].receiver) && fails(*rig.streams()[1].receiver); }));
  for (const std::string& said : rig.warnings()) {
    CHECK_EQ(said.find("its lanes broke, and its host refuses") == std::string::npos ? said : "", "");
  }
}

/// Some of what it said was late, and comes after its end, as what a kernel sends again does: that is no life.
TEST(net_late_words_of_a_process_that_ended_are_no_life) {
  Rig rig(options(Kind::Kept, 1));
  Captured captured;
  captured.watch(rig, 100000);
  rig.stream(0, 1, 0, kMany);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100 && knowsTcp(rig.engine(0)); }));
  std::vector<std::vector<uint8_t>> late;
  for (int n = 0; n < 20; n++) {
    const size_t from = captured.all().size();
    rig.loseType(Type::Ack, true);
    pauseMs(2);
    rig.loseType(Type::Ack, false);
    const std::vector<Captured::One> lost = captured.all();
    for (size_t i = from; i < lost.size(); i++) {
      if (lost[i].from == 1) late.push_back(lost[i].bytes);
    }
    const uint64_t before = rig.delivered();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > before + 20; }));
  }
  rig.stop();
  const NicAddress gone = EngineDoor::address(rig.engine(1), 0);
  rig.endEngine(1);
  const int64_t ended = nowNs();
  CHECK(Rig::within(kLimitNs, [&] {
    const bool more = !late.empty() && nowNs() - ended < msToNs(100);
    if (more) EngineDoor::datagram(rig.engine(0), 0, gone, late.back()), late.pop_back();
    pauseMs(2);
    return fails(*rig.streams()[0].sender);
  }));
  const auto said = rig.warnings();
  CHECK(said.size() == 1 && said[0].find("its lanes broke, and its host refuses") != std::string::npos);
}

/// Every lane of it breaks again and again, UDP is lost as well, and it lives.
TEST(net_broken_lanes_alone_are_no_death) {
  for (const bool udp : {true, false}) {
    Rig rig(options(Kind::Kept, 2));
    rig.stream(0, 1, 0, kMany);
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100; }));
    rig.loseUdp = !udp;
    for (int n = 0; n < check::much(20, 5); n++) {
      for (int rail = 0; rail < 2; rail++)
        inject(rig, n % 2 == 0 ? Fault::ErrorAtSender : Fault::ErrorAtReceiver, rail, Cut::Lose);
      const uint64_t before = rig.delivered();
      CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > before + 50; }));
    }
    rig.stop();
    CHECK_EQ(rig.streams()[0].receiver->wrong(), "");
    for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
  }
}

/// A host of one NIC: nothing is lost in so many errors of its lane, and each time there is a fresh one.
TEST(net_five_hundred_errors_of_the_only_nic) {
  for (const Kind kind : kKinds) {
    Rig rig(options(kind, 1));
    rig.stream(0, 1, 0, kMany);
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100; }));
    int failed = 0;
    for (int n = 0; n < check::much(500, 50); n++) {
      const int made = rig.fabric.counts().made;
      rig.fabric.breakComms({n % 2, 0});
      const uint64_t before = rig.delivered();
      const auto goesOn = [&] { return rig.fabric.counts().made > made && rig.delivered() > before; };
      failed += Rig::within(kLimitNs, goesOn) ? 0 : 1;
    }
    CHECK_EQ(failed, 0);
    rig.stop();
    CHECK_EQ(rig.streams()[0].receiver->wrong(), "");
    CHECK_EQ(rig.warnings().size(), 0u);
    for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
  }
}

/// A host has no path left. Where its peers gave up, they say why to those that never talked to it; then the others go
/// on over connections of their own, as after ncclCommShrink.
TEST(net_going_on_without_the_lost_host) {
  RigOptions o = options(Kind::Kept, 2);
  o.hosts = 3;
  o.holdNs = msToNs(300);
  Rig rig(o);
  rig.stream(0, 1, 0, kMany), rig.stream(1, 2, 0, kMany);
  const Stream &lost = rig.streams()[0], &other = rig.streams()[1];
  other.sender->limit = 200;  // the ring stands still behind it
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return lost.receiver->done() > 100 && other.receiver->done() == 200; }));
  for (int rail = 0; rail < 2; rail++) rig.fabric.cut({0, rail}, Cut::Hold), rig.link(0, rail, false);
  CHECK(Rig::within(kLimitNs, [&] {
    return lost.sender->state() == End::State::Failed && lost.receiver->state() == End::State::Failed;
  }));
  CHECK(other.receiver->state() == End::State::Running);
  rig.stop();
  const int64_t start = nowNs();
  lost.receiver->close(), other.sender->close();
  CHECK(nowNs() - start < abortLimitNs());
  CHECK(Rig::within(kLimitNs, [&] { return other.receiver->step(), other.receiver->state() == End::State::Failed; }));
  other.receiver->close(), lost.sender->close();
  const std::string said = lines(rig.warnings()), host = hostName();
  for (const std::string& wanted :
       {" of " + host + " to peer 127.0.1.2 failed: ", std::string(" for 300 ms (R2CC_HOLD_MS)"),
        "; no link at " + host + ": lo, lo (netlink",
        " of " + host + " to peer 127.0.1.1 failed: peer 127.0.1.1 is silent on every path (",
        " of " + host + " to peer 127.0.1.2 failed: the peer says: " + host +
            ": peer 127.0.1.1 is silent on every path ("})
    CHECK_EQ(said.find(wanted) == std::string::npos ? wanted + " is not in " + said : "", "");
  CHECK_EQ(lost.receiver->wrong() + other.receiver->wrong(), "");
  rig.streams().clear();
  rig.stream(1, 2, 0, 300), rig.stream(2, 1, 1, 300);
  rig.start();
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  for (const Stream& s : rig.streams()) {
    CHECK(s.sender->state() == End::State::Done && s.receiver->state() == End::State::Done);
    CHECK_EQ(s.receiver->wrong(), "");
  }
  CHECK_EQ(lines(rig.fabric.violations()), "");
}
