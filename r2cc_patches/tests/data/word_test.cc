// What a sender tells NCCL is done the receiver has, or both ends fail: the moments at which a NIC's word is all there
// is, and the NIC is lost.
#include <chrono>

#include "check.h"
#include "rig/faults.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);
constexpr uint64_t kHalf = 100, kTaken = kHalf + kSlots;

void pauseMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

RigOptions rdma(bool gpu, int mode) {
  RigOptions o;
  o.needsAck = false;
  o.anyOrder = o.drains = true;
  o.gpu = gpu;
  o.rails = 2;
  o.mode = mode;
  return o;
}

Stream& halfWay(Rig& rig, uint64_t messages) {
  Stream& s = rig.stream(0, 1, 0, messages);
  s.sender->limit = s.receiver->limit = kHalf;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return s.receiver->done() == kHalf && s.sender->done() == kHalf; }));
  rig.fabric.takesAll();
  return s;
}

/// The receiver's NIC has a few more, and NCCL was told so at the sender; the receiver has not asked for any of them.
void takeUnasked(const Stream& s) {
  s.receiver->askBelow = kHalf;
  s.receiver->limit = kTaken;
  pauseMs(20);
  s.sender->limit = kTaken;
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() == kTaken; }));
  CHECK_EQ(s.receiver->done(), kHalf);
}

void lift(const Stream& s) {
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  s.receiver->askBelow = UINT64_MAX;
}

/// Over at both ends, and nothing wrong was handed out.
void over(Rig& rig, const Stream& s) {
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  const bool through = s.receiver->state() == End::State::Done && s.sender->state() == End::State::Done;
  CHECK(through || (s.receiver->state() == End::State::Failed && !rig.warnings().empty()));
  CHECK_EQ(s.receiver->wrong(), "");
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}

/// Over the second NIC while the first is away; then back, so that the sender's plan has left the second.
void takeAndReturn(Rig& rig, const Stream& s) {
  const int fenced = rig.seen(Type::Fenced), switched = rig.seen(Type::Switched);
  inject(rig, Fault::LinkAtBoth, 0, Cut::Lose);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Fenced) > fenced; }));
  pauseMs(20);
  takeUnasked(s);
  revert(rig, Fault::LinkAtBoth, 0);
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Switched) > switched; }));
  pauseMs(50);
}

/// NCCL at the receiver looks only later.
void closeSender(Rig& rig, const Stream& s) {
  rig.stop();
  s.sender->close();
  pauseMs(150);
}

void receiverEndsWell(Rig& rig, const Stream& s) {
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return s.receiver->state() != End::State::Running; }));
  rig.stop();
  CHECK(s.receiver->state() == End::State::Done);
  CHECK_EQ(s.receiver->wrong(), "");
  CHECK_EQ(rig.warnings().size(), 0u);
}

}  // namespace

/// Messages on a lane that the sender has left by a switch, and the receiver has not: when it breaks there, somebody
/// must say so.
TEST(net_word_of_a_lane_that_the_sender_has_left) {
  for (const bool gpu : {false, true}) {
    for (const int mode : {1, 2}) {
      Rig rig(rdma(gpu, mode));
      const Stream& s = halfWay(rig, 3 * kHalf);
      takeAndReturn(rig, s);
      inject(rig, Fault::ErrorAtReceiver, 1, Cut::Lose);
      lift(s);
      over(rig, s);
      if (!gpu) CHECK(s.receiver->state() == End::State::Done);
    }
  }
}

/// The same when the lane's NIC loses its link.
TEST(net_word_of_a_left_lane_whose_link_is_lost) {
  for (const bool gpu : {false, true}) {
    Rig rig(rdma(gpu, 1));
    const Stream& s = halfWay(rig, 3 * kHalf);
    takeAndReturn(rig, s);
    inject(rig, Fault::LinkAtBoth, 1, Cut::Lose);
    lift(s);
    over(rig, s);
    if (!gpu) CHECK(s.receiver->state() == End::State::Done);
    rig.fabric.healAll();
  }
}

/// NCCL closes a sender as soon as all is done. What lies in GPU memory at the other end is still to be flushed, and a
/// busy NIC takes its time.
TEST(net_word_of_a_sender_that_closes_before_the_flush) {
  for (const int rails : {1, 2}) {
    for (const int lateMs : {20, 400}) {  // a busy host is late
      RigOptions o = rdma(true, 1);
      o.rails = rails;
      Rig rig(o);
      const Stream& s = halfWay(rig, kTaken);
      rig.fabric.endFlushesLate(msToNs(lateMs));
      takeUnasked(s);
      closeSender(rig, s);
      lift(s);
      receiverEndsWell(rig, s);
    }
  }
}

/// It is the receiver's NIC that flushes: what becomes of the sender's is all the same.
TEST(net_word_of_a_sender_that_closes_before_the_flush_and_loses_its_nic) {
  Rig rig(rdma(true, 1));
  const Stream& s = halfWay(rig, kTaken);
  rig.fabric.endFlushesLate(msToNs(400));
  takeUnasked(s);
  closeSender(rig, s);
  rig.link(0, 0, false);
  lift(s);
  receiverEndsWell(rig, s);
}

TEST(net_word_of_a_flush_that_never_ends_after_the_sender_closed) {
  RigOptions o = rdma(true, 1);
  o.holdNs = msToNs(300);
  Rig rig(o);
  const Stream& s = halfWay(rig, kTaken);
  rig.fabric.endFlushesLate(msToNs(3600000));
  takeUnasked(s);
  closeSender(rig, s);
  lift(s);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return s.receiver->state() == End::State::Failed; }));
  rig.stop();
  CHECK_EQ(rig.warnings().size(), 1u);
}

/// The same when NCCL's own flush, the first of the connection, is under way.
TEST(net_word_of_a_sender_that_closes_during_the_flush) {
  Rig rig(rdma(true, 1));
  rig.fabric.endFlushesLate(msToNs(20));
  const Stream& s = rig.stream(0, 1, 0, 1);
  s.receiver->askBelow = 0;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() == 1; }));
  s.receiver->askBelow = 1;
  CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.flushes({1, 0}) == 1; }));
  closeSender(rig, s);
  receiverEndsWell(rig, s);
}

/// All that is to be sent lies in the sender's kernel when the connection is reset: no call of NCCL's would ever find
/// it out, where copies are kept or not, and whether there is another NIC or none.
TEST(net_word_of_a_kernel_whose_connection_is_reset) {
  for (const bool plain : {false, true}) {
    for (const int rails : {1, 2}) {
      for (const size_t bytes : {size_t{1000}, kSlotBytes}) {
        RigOptions o;
        o.plain = plain;
        o.rails = rails;
        o.bytes = bytes;
        Rig rig(o);
        const Stream& s = halfWay(rig, 2 * kHalf);
        rig.fabric.freeze(1, true);  // nothing arrives
        s.sender->limit = s.receiver->limit = kHalf + 2;
        pauseMs(5);
        rig.fabric.resetSends({0, 0});
        rig.fabric.freeze(1, false);
        CHECK(Rig::within(kLimitNs, [&] { return s.receiver->done() == kHalf + 2; }));
        lift(s);
        CHECK(rig.allDone(kLimitNs));
        rig.stop();
        CHECK_EQ(rig.problems(), "");
      }
    }
  }
}

/// An error is the end: whatever was handed out before is right, and nothing is after it.
TEST(net_word_after_all_paths_are_lost_for_good) {
  struct Loss {
    bool direct;
    int rails;
    Fault fault;
  };
  for (const Loss& loss : {Loss{false, 1, Fault::BlackHole}, Loss{false, 2, Fault::LinkAtReceiver},
                           Loss{true, 1, Fault::LinkAtReceiver}, Loss{true, 2, Fault::LinkAtSender}}) {
    RigOptions o = loss.direct ? rdma(true, 1) : RigOptions{};
    o.plain = !loss.direct;
    o.rails = loss.rails;
    o.holdNs = msToNs(300);
    o.seed = static_cast<uint64_t>(loss.fault) + 1;
    Rig rig(o);
    rig.stream(0, 1, 0, 100000);
    const Stream& s = rig.streams()[0];
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return s.receiver->done() > kHalf; }));
    for (int rail = 0; rail < loss.rails; rail++) inject(rig, loss.fault, rail, Cut::Lose);
    CHECK(rig.allDone(kLimitNs));
    rig.stop();
    CHECK(s.sender->state() == End::State::Failed && s.receiver->state() == End::State::Failed);
    CHECK_EQ(s.receiver->wrong(), "");
    for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
  }
}
