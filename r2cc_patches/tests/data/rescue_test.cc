// Messages that the sender was told of as done because the receiver's kernel has them: what NCCL has not asked for yet
// is saved from a lane that is given up, and handed over later.
#include "budget.h"
#include "check.h"
#include "data/ack_rule.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {
constexpr int64_t kLimitNs = msToNs(15000);
static_assert(kSlotBytes > kKeepLateBytes);
constexpr uint64_t kFirst = 4, kKernel = 4, kAll = 400;  // the fake kernel takes so many that nobody reads

RigOptions large() {
  RigOptions options;
  options.plain = true;
  options.bytes = kSlotBytes;  // no copies
  return options;
}

/// Connected, the first few are acknowledged, and the receiver asks for no more.
Stream& begun(Rig& rig) {
  Stream& s = rig.stream(0, 1, 0, kAll);
  s.sender->limit = s.receiver->limit = kFirst;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() == kFirst && s.receiver->done() == kFirst; }));
  return s;
}

/// As many as lie in the kernel are done, without a word of the receiver's.
void sendIntoKernel(Rig& rig, Stream& s) {
  rig.loseType(Type::Ack, true);
  s.sender->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() >= kFirst + kKernel - 1; }));
  CHECK_EQ(s.receiver->done(), kFirst);
}

void arriveAll(Rig& rig, Stream& s) {
  rig.loseType(Type::Ack, false);
  s.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}
}  // namespace

TEST(net_rescue_of_what_lies_in_a_lost_lane_s_socket) {
  for (const Cut how : {Cut::Hold, Cut::Lose}) {
    for (const int host : {0, 1}) {
      Rig rig(large());
      Stream& s = begun(rig);
      sendIntoKernel(rig, s);
      const int freezes = rig.seen(Type::Freeze);
      rig.fabric.cut({host, 0}, how);
      rig.link(host, 0, false);
      CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > freezes; }));
      arriveAll(rig, s);
      rig.fabric.healAll();
    }
  }
}

/// Of those that NCCL asked for, and of those that it did not.
TEST(net_rescue_where_a_call_takes_less_than_there_is) {
  for (const uint64_t asked : {0, 1, 2}) {
    Rig rig(large());
    Stream& s = begun(rig);
    rig.fabric.readShort(true);
    sendIntoKernel(rig, s);
    s.receiver->limit = kFirst + asked;
    const int freezes = rig.seen(Type::Freeze);
    rig.fabric.cut({0, 0}, Cut::Lose);
    rig.link(0, 0, false);
    CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > freezes; }));
    (void)Rig::within(msToNs(50), [] { return false; });  // the lane is given up
    rig.fabric.readShort(false);
    arriveAll(rig, s);
    rig.fabric.healAll();
  }
}

/// Again and again, before anything of it was asked for.
TEST(net_rescue_survives_the_next_failover) {
  Rig rig(large());
  Stream& s = begun(rig);
  sendIntoKernel(rig, s);
  for (const int rail : {0, 1}) {
    const int fenced = rig.seen(Type::Fenced);
    rig.fabric.cut({0, rail}, Cut::Lose);
    rig.link(0, rail, false);
    CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Fenced) > fenced; }));
    (void)Rig::within(msToNs(300), [] { return false; });  // more of it goes into the next lane's kernel
  }
  arriveAll(rig, s);
  rig.fabric.healAll();
}

/// The sender gets no further ahead of the last acknowledgement than what the receiver can name.
TEST(net_rescue_is_bounded) {
  Rig rig(large());
  Stream& s = rig.stream(0, 1, 0, kAll);
  s.sender->limit = s.receiver->limit = kFirst;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() == kFirst; }));
  rig.loseType(Type::Ack, true);
  const int freezes = rig.seen(Type::Freeze);
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() >= kFirst + Fenced::kMasked / 2; }));
  (void)Rig::within(msToNs(200), [] { return false; });
  if (rig.seen(Type::Freeze) == freezes) CHECK(s.sender->done() <= kFirst + Fenced::kMasked);
  arriveAll(rig, s);
}

TEST(net_rescue_needs_few_acknowledgements) {
  Rig rig(large());
  const int messages = check::much(4000, 1000);
  rig.stream(0, 1, 0, static_cast<uint64_t>(messages));
  rig.start();
  const int64_t start = nowNs();
  CHECK(rig.allDone(2 * kLimitNs));
  const auto ofTheClock = static_cast<int>((nowNs() - start) / msToNs(4));
  const int acks = rig.seen(Type::Ack);
  rig.stop();
  CHECK(acks <= messages / static_cast<int>(kRescuedDue) * 2 + ofTheClock);
  CHECK_EQ(rig.problems(), "");
}
