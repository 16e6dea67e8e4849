// How connections end, wait, and give up: loss of all paths, late and dead peers, closing in the middle of everything.
#include <chrono>

#include "check.h"
#include "net/r2cc_net.h"
#include "rig/faults.h"
#include "rig/finish.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);

void pauseMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void allLinks(Rig& rig, bool up) {
  for (int rail = 0; rail < 3; rail++) {
    up ? rig.fabric.heal({0, rail}) : rig.fabric.cut({0, rail}, Cut::Hold);
    rig.link(0, rail, up);
  }
}

bool bothFailed(const Stream& s) {
  return s.sender->state() == End::State::Failed && s.receiver->state() == End::State::Failed;
}

/// A stream of this many messages, of which half are through and the rest wait for limit() to be lifted.
void halfWay(Rig& rig, uint64_t messages) {
  const Stream& s = rig.stream(0, 1, 0, messages);
  s.sender->limit = s.receiver->limit = messages / 2;
  rig.start();
  const auto both = [&] { return rig.delivered() == messages / 2 && s.sender->done() == messages / 2; };
  CHECK(Rig::within(kLimitNs, both));
}

void lift(Rig& rig) {
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = UINT64_MAX;
}

/// Everything is through, nothing was done wrong, and nothing is left.
void finish(Rig& rig) {
  finishClean(rig, kLimitNs);
  CHECK_EQ(rig.fabric.counts().tuned, rig.fabric.counts().made);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

}  // namespace

TEST(net_all_paths_down_for_a_while) {
  Rig rig({});
  halfWay(rig, 400);
  allLinks(rig, false);
  lift(rig);
  pauseMs(150);
  CHECK_EQ(rig.delivered(), 200u);
  allLinks(rig, true);
  finish(rig);
}

TEST(net_all_paths_down_for_good) {
  RigOptions options;
  options.holdNs = msToNs(300);
  Rig rig(options);
  halfWay(rig, 400);
  const int64_t start = nowNs();
  allLinks(rig, false);
  lift(rig);
  CHECK(Rig::within(kLimitNs, [&] { return bothFailed(rig.streams()[0]); }));
  CHECK(nowNs() - start >= msToNs(250));
  rig.stop();
  CHECK(joined(rig.warnings()).find("127.0.") != std::string::npos);
  CHECK(joined(rig.warnings()).find("R2CC_HOLD_MS") != std::string::npos);
  CHECK(joined(rig.warnings()).find("no link at " + hostName() + ": ") != std::string::npos);
  CHECK(rig.fabric.violations().empty());
}

TEST(net_everything_silent_is_held_then_given_up) {
  RigOptions options;
  options.holdNs = msToNs(400);
  Rig rig(options);
  halfWay(rig, 400);
  const int freezes = rig.seen(Type::Freeze);
  for (int rail = 0; rail < 3; rail++) rig.fabric.cut({0, rail}, Cut::Hold);
  lift(rig);
  pauseMs(150);
  CHECK_EQ(rig.seen(Type::Freeze), freezes);  // no data path answers: no evidence against any of them
  CHECK(Rig::within(kLimitNs, [&] { return bothFailed(rig.streams()[0]); }));
  rig.stop();
  CHECK(rig.fabric.violations().empty());
}

TEST(net_late_peer_is_not_a_fault) {
  Rig rig({});
  halfWay(rig, 400);
  const int freezes = rig.seen(Type::Freeze);
  rig.pause(1, true);
  lift(rig);
  pauseMs(300);
  rig.pause(1, false);
  finish(rig);
  CHECK_EQ(rig.seen(Type::Freeze), freezes);
  CHECK_EQ(rig.seen(Type::Switch), 0);
}

/// Also where the hold time is as short as the time between two questions otherwise is.
TEST(net_quiet_peer_is_asked_before_it_is_given_up) {
  RigOptions options;
  options.holdNs = msToNs(1000);
  Rig rig(options);
  halfWay(rig, 200);
  const Stream& s = rig.streams().front();
  s.receiver->limit = UINT64_MAX;  // it waits, and nobody has anything to send
  pauseMs(3000);
  CHECK(s.receiver->state() == End::State::Running);
  lift(rig);
  finish(rig);
}

TEST(net_slow_receiver_is_not_a_fault) {
  Rig rig({});
  halfWay(rig, 400);
  const int freezes = rig.seen(Type::Freeze);
  rig.streams()[0].sender->limit = UINT64_MAX;  // the receiver posts nothing; its process answers
  pauseMs(200);
  lift(rig);
  finish(rig);
  CHECK_EQ(rig.seen(Type::Freeze), freezes);
}

TEST(net_all_but_one_path_silent) {
  RigOptions options;
  options.rails = 4;
  Rig rig(options);
  halfWay(rig, 400);
  for (int rail = 0; rail < 3; rail++) rig.fabric.cut({0, rail}, Cut::Hold);
  lift(rig);
  finish(rig);
}

TEST(net_one_way_loss) {
  for (const bool there : {true, false}) {
    Rig rig({});
    halfWay(rig, 400);
    there ? rig.fabric.cutOneWay({0, 0}, {1, 0}) : rig.fabric.cutOneWay({1, 0}, {0, 0});
    lift(rig);
    finish(rig);
  }
}

TEST(net_connect_refused_on_home) {
  for (const int host : {0, 1}) {
    Rig rig({});
    rig.fabric.refuse({host, 0}, true);
    rig.stream(0, 1, 0, 100);
    rig.start();
    CHECK(rig.allDone(kLimitNs));
    CHECK(rig.seen(Type::OpenLane) < 500);
    finish(rig);
  }
}

TEST(net_switch_never_answered) {
  for (const Type type : {Type::Switch, Type::Switched}) {
    Rig rig({});
    halfWay(rig, 2000);
    rig.loseType(type, true);
    inject(rig, Fault::LinkAtBoth, 0, Cut::Hold);
    pauseMs(20);
    revert(rig, Fault::LinkAtBoth, 0);
    pauseMs(250);
    lift(rig);
    finish(rig);
  }
}

TEST(net_messages_over_when_lane_leaves_plan) {
  RigOptions options;
  options.needsAck = false;
  Rig rig(options);
  rig.fabric.endSendsLate(msToNs(15));  // acknowledged long before the transport says that the send is over
  halfWay(rig, 300);
  inject(rig, Fault::LinkAtBoth, 0, Cut::Hold);
  Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > 1; });
  revert(rig, Fault::LinkAtBoth, 0);
  lift(rig);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Switched) > 0; }));
  finish(rig);
}

TEST(net_receiver_closes_before_sends_are_over) {
  RigOptions options;
  options.needsAck = false;
  Rig rig(options);
  rig.fabric.endSendsLate(msToNs(200));
  const Stream& s = rig.stream(0, 1, 0, 8);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return s.receiver->state() == End::State::Done; }));
  rig.stop();
  s.receiver->close();
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->state() == End::State::Done; }));
  rig.stop();
  s.sender->deregister();
  CHECK_EQ(joined(rig.fabric.violations()), "");
}

/// A path on which a lane broke must answer before it is used again, however long its answers are lost.
TEST(net_doubt_ends_with_an_answer) {
  Rig rig({});
  halfWay(rig, 400);
  rig.loseType(Type::Pong, true);
  const int freezes = rig.seen(Type::Freeze);
  rig.fabric.breakComms({0, 0});
  lift(rig);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > freezes; }));
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 400; }));
  pauseMs(400);  // longer than the neighbours of a dead path are asked
  CHECK_EQ(rig.fabric.lanes({0, 0}), 0);
  CHECK_EQ(rig.seen(Type::Switch), 0);
  rig.loseType(Type::Pong, false);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Switched) > 0; }));
  finish(rig);
}

TEST(net_farewell_lost) {
  for (const bool receiverCloses : {true, false}) {
    Rig rig({});
    halfWay(rig, 400);
    lift(rig);
    rig.stop();
    const Stream& s = rig.streams()[0];
    rig.loseType(Type::Bye, true);
    rig.loseType(Type::Ack, true);
    End& closer = receiverCloses ? *s.receiver : *s.sender;
    End& other = receiverCloses ? *s.sender : *s.receiver;
    closer.close();
    rig.loseType(Type::Bye, false);
    rig.loseType(Type::Ack, false);
    const int64_t end = nowNs() + kLimitNs;
    while (other.state() == End::State::Running && nowNs() < end) other.step();
    CHECK(other.state() == End::State::Failed);
    CHECK_EQ(joined(rig.fabric.violations()), "");
  }
}

TEST(net_peer_gone) {
  Rig rig({});
  halfWay(rig, 400);
  rig.stop();
  rig.endEngine(1);
  lift(rig);
  const Stream& s = rig.streams()[0];
  const int64_t start = nowNs();
  while (s.sender->state() == End::State::Running && nowNs() - start < kLimitNs) s.sender->step();
  CHECK(s.sender->state() == End::State::Failed);
  CHECK(nowNs() - start < msToNs(5000));
  CHECK(joined(rig.warnings()).find("127.0.") != std::string::npos);
}

TEST(net_memory_taken_away_in_use) {
  for (const bool atSender : {true, false}) {
    Rig rig({});
    halfWay(rig, 400);
    const Stream& s = rig.streams()[0];
    rig.stop();
    // Half of the slots are on their way when the memory goes.
    lift(rig);
    (atSender ? s.sender : s.receiver)->step();
    (atSender ? s.sender : s.receiver)->deregister();
    const int64_t end = nowNs() + kLimitNs;
    while (!bothFailed(s) && nowNs() < end) {
      if (!atSender) s.sender->step();
      if (atSender) s.receiver->step();
      if ((atSender ? s.receiver : s.sender)->state() == End::State::Failed) break;
    }
    CHECK((atSender ? s.receiver : s.sender)->state() == End::State::Failed);
    CHECK_EQ(joined(rig.fabric.violations()), "");
  }
}

TEST(net_memory_taken_away_then_failover) {
  Rig rig({});
  halfWay(rig, 400);
  rig.stop();
  const Stream& s = rig.streams()[0];
  lift(rig);
  for (int i = 0; i < 50; i++) s.sender->step();  // all sends have left, none is acknowledged
  s.sender->deregister();
  inject(rig, Fault::LinkAtBoth, 0, Cut::Lose);
  pauseMs(50);
  CHECK_EQ(joined(rig.fabric.violations()), "");
}

TEST(net_close_during_failover) {
  for (int afterMs = 0; afterMs < 8; afterMs++) {
    Rig rig({});
    halfWay(rig, 400);
    lift(rig);
    inject(rig, Fault::LinkAtBoth, 0, Cut::Hold);
    pauseMs(afterMs);
    const int64_t start = nowNs();
    rig.stop();
    rig.closeStreams();
    rig.endEngine(0), rig.endEngine(1);
    CHECK(nowNs() - start < msToNs(3000));
    CHECK(rig.fabric.counts().clean());
    CHECK_EQ(joined(rig.fabric.violations()), "");
  }
}

TEST(net_every_buffer_on_every_lane) {
  Rig rig({});
  halfWay(rig, 40);
  // The standby lane comes up after the buffers were registered, the first one before.
  CHECK(Rig::within(
      kLimitNs, [&] { return rig.fabric.lanes({0, 0}) + rig.fabric.lanes({0, 1}) + rig.fabric.lanes({0, 2}) >= 2; }));
  CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.lanesWithout(0, 1) + rig.fabric.lanesWithout(1, 1) == 0; }));
  lift(rig);
  finish(rig);
}

TEST(net_mode_0_is_the_inner_net) {
  ncclNet_t unknown{};
  CHECK(r2ccWrapNet(&unknown) == &unknown);  // no operations of ours for it
  setenv("R2CC_MODE", "0", 1);
  const void* stock = r2ccNetGet("Socket");
  setenv("R2CC_MODE", "1", 1);
  const void* wrapped = r2ccNetGet("Socket");
  unsetenv("R2CC_MODE");
  CHECK(stock != nullptr && wrapped != nullptr && stock != wrapped);
  CHECK(r2ccNetGet("Carrier pigeon") == nullptr);
}
