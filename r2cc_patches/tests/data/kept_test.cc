// Small messages of which the sender keeps a copy: NCCL is told "done" before the receiver has them, may reuse, free
// and close, and still every one of them arrives.
#include <chrono>
#include <thread>

#include "budget.h"
#include "check.h"
#include "data/ack_rule.h"
#include "data/kept_messages.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {
constexpr int64_t kLimitNs = msToNs(15000);
constexpr uint64_t kFirst = 4, kAll = kFirst + 4;  // the fake kernel takes so many frames that nobody reads

RigOptions keeping() {
  RigOptions options;
  options.plain = true;
  options.holdNs = msToNs(1500);
  options.seed = 6;  // none of the first hundred messages is a large one
  return options;
}

/// Connected, and the first few are there.
Stream& begun(Rig& rig) {
  Stream& s = rig.stream(0, 1, 0, kAll);
  s.sender->limit = s.receiver->limit = kFirst;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kFirst; }));
  return s;
}

/// The sender is told that all are done, and then frees and closes everything, while the receiver takes nothing.
void sendAllAndClose(Rig& rig, Stream& s) {
  s.sender->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->state() == End::State::Done; }));
  CHECK_EQ(s.receiver->done(), kFirst);
  rig.stop();
  s.sender->close();
  rig.start();
}

/// All lanes of the sender's host.
int lanesOfSender(const Rig& rig) {
  return rig.fabric.lanes({0, 0}) + rig.fabric.lanes({0, 1}) + rig.fabric.lanes({0, 2});
}

void arriveAll(Rig& rig, Stream& s) {
  s.receiver->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return s.receiver->state() == End::State::Done; }));
  rig.stop();
  CHECK_EQ(s.receiver->wrong(), "");
  CHECK(rig.warnings().empty());
  // Nothing of the closed connection is left once the last copy is acknowledged.
  CHECK(Rig::within(kLimitNs, [&] { return lanesOfSender(rig) == 0; }));
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}
}  // namespace

TEST(net_kept_messages_outlive_their_connection) {
  Rig rig(keeping());
  Stream& s = begun(rig);
  sendAllAndClose(rig, s);
  arriveAll(rig, s);
}

TEST(net_kept_messages_go_out_again_after_their_connection_was_closed) {
  for (const Cut how : {Cut::Hold, Cut::Lose}) {
    Rig rig(keeping());
    Stream& s = begun(rig);
    const int freezes = rig.seen(Type::Freeze);
    rig.fabric.cut({0, 0}, how);
    sendAllAndClose(rig, s);
    rig.link(0, 0, false);
    CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > freezes; }));
    arriveAll(rig, s);
    rig.fabric.healAll();
  }
}

TEST(net_kept_messages_do_not_keep_a_process_from_ending) {
  RigOptions options = keeping();
  options.holdNs = msToNs(60000);
  Rig rig(options);
  Stream& s = begun(rig);
  sendAllAndClose(rig, s);
  rig.stop();
  const int64_t start = nowNs();
  rig.endEngine(0);  // while nobody takes them at the other end
  const int64_t tookMs = (nowNs() - start) / 1000000;
  CHECK(tookMs >= 1900 && tookMs < 4000);
}

namespace {

constexpr int64_t kShortHoldNs = msToNs(300);

RigOptions late(int mode = 1, int rails = 3) {
  RigOptions options = keeping();
  options.holdNs = kShortHoldNs;
  options.mode = mode;
  options.rails = rails;
  return options;
}

/// Much longer than anybody is waited for who has no path.
void letTheHoldTimePass() { std::this_thread::sleep_for(std::chrono::nanoseconds(4 * kShortHoldNs)); }

/// Begun. Mode 2: what comes next is spread over rails 1 and 2.
Stream& begunLate(Rig& rig, int mode) {
  Stream& s = begun(rig);
  if (mode == 2) rig.link(0, 0, false);
  CHECK(Rig::within(kLimitNs, [&] { return mode == 1 || rig.seen(Type::Switched) > 0; }));
  return s;
}

/// It ends, and what it got is right.
void endsWithError(Rig& rig, Stream& s) {
  s.receiver->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return s.receiver->state() == End::State::Failed; }));
  rig.stop();
  CHECK_EQ(s.receiver->wrong(), "");
}

}  // namespace

/// As with stock, whose kernel keeps them; also where they lie on several lanes.
TEST(net_kept_messages_wait_for_a_late_receiver) {
  for (const int mode : {1, 2}) {
    Rig rig(late(mode));
    Stream& s = begunLate(rig, mode);
    sendAllAndClose(rig, s);
    letTheHoldTimePass();
    CHECK(lanesOfSender(rig) > 0);
    arriveAll(rig, s);
  }
}

TEST(net_kept_messages_go_out_again_however_late) {
  for (const Cut how : {Cut::Hold, Cut::Lose}) {
    Rig rig(late());
    Stream& s = begun(rig);
    rig.fabric.stand({0, 0}, true);  // the receiver's kernel has none of them
    sendAllAndClose(rig, s);
    letTheHoldTimePass();
    const int freezes = rig.seen(Type::Freeze);
    rig.fabric.cut({0, 0}, how);
    rig.link(0, 0, false);
    CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > freezes; }));
    arriveAll(rig, s);
    rig.fabric.healAll();
  }
}

TEST(net_kept_messages_are_given_up_where_no_path_is_left) {
  Rig rig(late());
  Stream& s = begun(rig);
  const auto lose = [&](int rail) { rig.fabric.cut({0, rail}, Cut::Lose), rig.link(0, rail, false); };
  rig.fabric.stand({0, 0}, true);
  for (const int rail : {1, 2}) lose(rail);  // first: what stands still may not move there meanwhile
  sendAllAndClose(rig, s);
  lose(0);
  CHECK(Rig::within(kLimitNs, [&] { return lanesOfSender(rig) == 0; }));
  endsWithError(rig, s);
  rig.fabric.healAll();
}

/// Nobody is left who could ask: what is kept goes at once.
TEST(net_kept_messages_are_given_up_with_their_receiver) {
  for (const bool closes : {true, false}) {
    Rig rig(late());
    Stream& s = begun(rig);
    sendAllAndClose(rig, s);
    rig.stop();
    closes ? s.receiver->close() : rig.endEngine(1);
    CHECK(Rig::within(kLimitNs, [&] { return lanesOfSender(rig) == 0; }));
    rig.start();
  }
}

/// The kernel goes on with what it has, and nothing of it is reset.
TEST(net_kept_messages_outlive_their_process) {
  for (const int mode : {1, 2}) {
    Rig rig(late(mode));
    Stream& s = begunLate(rig, mode);
    sendAllAndClose(rig, s);
    rig.stop();
    const int fenced = rig.fabric.counts().fenced;
    rig.endEngine(0);
    CHECK_EQ(rig.fabric.counts().fenced, fenced);
    rig.start();
    letTheHoldTimePass();
    arriveAll(rig, s);
  }
}

/// And where it cannot, the receiver hears it: it gets an error, and nothing that is wrong.
TEST(net_kept_messages_of_a_process_that_ended_may_be_lost_with_a_lane) {
  for (const int mode : {1, 2}) {
    Rig rig(late(mode));
    Stream& s = begunLate(rig, mode);
    for (int rail = 0; rail < 3; rail++) rig.fabric.stand({0, rail}, true);
    sendAllAndClose(rig, s);
    rig.stop();
    rig.endEngine(0);
    rig.fabric.cut({0, mode == 1 ? 0 : 1}, Cut::Lose);
    rig.fabric.healAll();
    for (int rail = 0; rail < 3; rail++) rig.fabric.stand({0, rail}, false);
    rig.start();
    endsWithError(rig, s);
  }
}

/// NCCL waits for a free copy when as many, or as many bytes, as the ring holds are not acknowledged, and goes on when
/// they are. Many connections have less each.
TEST(net_kept_messages_are_bounded) {
  struct Case {
    size_t bytes = 0;
    uint64_t most = 0;
    int idle = 0;
  };
  const Case cases[] = {{256, kMostCopies}, {kKeepBytes, kMostCopyBytes / kKeepBytes}, {kKeepBytes, 16, 31}};
  for (const auto& [bytes, most, idle] : cases) {
    RigOptions options = keeping();
    options.bytes = bytes;
    Rig rig(options);
    for (int i = 0; i < idle; i++) rig.stream(0, 1, 0, 1);
    Stream& s = rig.stream(0, 1, 0, 4000);
    s.sender->limit = 0;
    rig.start();
    // All are there, and count.
    CHECK(Rig::within(kLimitNs, [&] {
      return rig.delivered() == static_cast<uint64_t>(idle) && s.sender->state() == End::State::Running;
    }));
    rig.loseType(Type::Ack, true);
    s.sender->limit = UINT64_MAX;
    CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() > 0; }));
    const int freezes = rig.seen(Type::Freeze);
    CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() >= most; }));
    const int64_t end = nowNs() + msToNs(300);
    uint64_t ahead = 0;
    while (nowNs() < end) {
      const uint64_t told = s.sender->done();
      ahead = std::max(ahead, told - std::min(told, s.receiver->done()));
    }
    CHECK(ahead <= most);
    if (rig.seen(Type::Freeze) == freezes) CHECK_EQ(s.sender->done(), most);  // a failover would acknowledge some
    rig.loseType(Type::Ack, false);
    CHECK(rig.allDone(kLimitNs));
    rig.stop();
    CHECK_EQ(rig.problems(), "");
  }
}

/// One in 64 is acknowledged, or half of the bytes that a sender may keep.
TEST(net_kept_messages_are_acknowledged_seldom) {
  const int messages = check::much(20000, 6000);
  for (const auto& [bytes, every] : {std::pair<size_t, int>{256, 64}, {kKeepBytes, 16}}) {
    RigOptions options = keeping();
    options.bytes = bytes;
    Rig rig(options);
    rig.stream(0, 1, 0, static_cast<uint64_t>(messages));
    rig.start();
    const int64_t start = nowNs();
    CHECK(rig.allDone(2 * kLimitNs));
    const int acks = rig.seen(Type::Ack);
    const auto ofTheClock = static_cast<int>((nowNs() - start) / msToNs(4));
    rig.stop();
    CHECK(acks >= messages / every / 2 && acks <= messages / every * 2 + ofTheClock);
    CHECK_EQ(rig.problems(), "");
  }
}

namespace {

/// How many of this size a sender copies late, of ten that are all in our kernel, one of `connections` to a peer.
/// `behind`: and another that is not.
uint64_t keptLate(size_t bytes, size_t connections, bool behind = false) {
  constexpr uint64_t kTen = 10;
  Requests requests(nullptr, 256);
  KeptMessages kept(requests, /*possible=*/true);
  std::vector<uint8_t> data(bytes);
  const uint64_t posted = kTen + (behind ? 2 : 1);
  for (uint64_t number = 0; number < posted; number++) {
    r2cc::Request& r = requests[number];
    r.number = number, r.size = bytes, r.data = data.data();
    for (const auto event : {RequestEvent::Give, RequestEvent::Post}) r.on(event);
    if (number <= kTen) r.on(RequestEvent::Finish);
  }
  kept.settle(1, 1);  // the first is acknowledged: the receiver knows the size
  uint64_t copied = 0;
  for (uint64_t number = 1; number <= kTen; number++) {
    if (!kept.wantsLate(requests[number], /*host=*/true, posted, 1, copyBudget(connections))) continue;
    kept.keep(requests[number]);
    copied++;
  }
  return copied;
}

}  // namespace

/// Half of what may be kept is left for small ones, which cannot go without.
TEST(net_kept_late_is_half_of_the_budget_at_most) {
  CHECK_EQ(keptLate(kKeepLateBytes, 1), kMostCopyBytes / 2 / kKeepLateBytes);
  CHECK_EQ(keptLate(61440, 32), 2u);   // of 256 KiB
  CHECK_EQ(keptLate(24576, 128), 1u);  // of 64 KiB
  CHECK_EQ(keptLate(kKeepLateBytes + 1, 1), 0u);
  CHECK_EQ(keptLate(kKeepLateBytes, 1, /*behind=*/true), 0u);
}

/// Once all that NCCL has posted is in our kernel: NCCL is told that it is done while the receiver takes none of it,
/// and no kernel says that it has it.
TEST(net_kept_late_are_done_for_nccl) {
  RigOptions options = keeping();
  options.bytes = kKeepLateBytes - 4096;
  options.confirms = false;
  Rig rig(options);
  Stream& s = begun(rig);
  sendAllAndClose(rig, s);
  arriveAll(rig, s);
}
