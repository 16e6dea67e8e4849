// What only RDMA NICs beside a GPU can show, played by the recording fabric: registration on every NIC, flushes before
// a message counts, completions in any order and behind broken ones; and sockets as the last resort under RDMA.
#include <chrono>

#include "budget.h"
#include "check.h"
#include "rig/door.h"
#include "rig/faults.h"
#include "rig/finish.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);

void pauseMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

RigOptions rdma(bool gpu) {
  RigOptions o;
  o.needsAck = false;
  o.anyOrder = o.drains = true;
  o.gpu = gpu;
  o.rails = 4;
  return o;
}

void halfWay(Rig& rig, uint64_t messages) {
  const Stream& s = rig.stream(0, 1, 0, messages);
  s.sender->limit = s.receiver->limit = messages / 2;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == messages / 2; }));
}

void lift(Rig& rig) { rig.streams()[0].sender->limit = rig.streams()[0].receiver->limit = UINT64_MAX; }

void finish(Rig& rig) {
  finishClean(rig, kLimitNs);
  CHECK(rig.resort.counts().clean());
}

void allLinks(Rig& rig, bool up) {
  for (int rail = 0; rail < 4; rail++)
    up ? revert(rig, Fault::LinkAtBoth, rail) : inject(rig, Fault::LinkAtBoth, rail, Cut::Lose);
}

}  // namespace

/// Its sends end by themselves, and acknowledgements come late: neither is a reason to ask whether the path lives.
TEST(net_rdma_traffic_is_not_probed) {
  // A host whose threads all wait for a core says nothing, and is probed. Under a sanitizer, of several runs one must
  // be without that.
  bool quiet = false;
  for (int runs = 0; runs < check::slowness() && !quiet; runs++) {
    RigOptions o;
    o.needsAck = false;
    Rig rig(o);
    rig.stream(0, 1, 0, 20000);
    rig.start();
    CHECK(Rig::within(msToNs(15000), [&] { return rig.delivered() >= 2000; }));
    const int pings = rig.seen(Type::Ping);
    const int64_t start = nowNs();
    CHECK(rig.allDone(msToNs(60000)));
    const auto lasted = static_cast<int>((nowNs() - start) / msToNs(1));
    quiet = rig.seen(Type::Ping) - pings <= std::max(20, lasted / 20);
    rig.stop();
    CHECK_EQ(rig.problems(), "");
  }
  CHECK(quiet);
}

TEST(net_rdma_every_buffer_on_every_nic) {
  Rig rig(rdma(false));
  halfWay(rig, 40);
  const auto everywhere = [&](int host, const End& end) {
    return rig.fabric.devsWith(host, end.buffers()) == std::vector<int>({0, 1, 2, 3});
  };
  const Stream& s = rig.streams()[0];
  CHECK(Rig::within(kLimitNs, [&] { return everywhere(0, *s.sender) && everywhere(1, *s.receiver); }));
  lift(rig);
  finish(rig);
}

TEST(net_rdma_no_anchors_for_sockets) {
  RigOptions o;
  Rig rig(o);
  halfWay(rig, 40);
  lift(rig);
  finish(rig);
  CHECK(rig.fabric.counts().made <= 6);  // two lanes and what a standby needs, not one a NIC and host
}

TEST(net_rdma_gpu_memory_is_flushed_before_it_is_read) {
  Rig rig(rdma(true));
  halfWay(rig, 400);
  lift(rig);
  finish(rig);
  CHECK(rig.fabric.flushes({1, 0}) > 100);
}

TEST(net_rdma_gpu_memory_through_faults) {
  for (const Fault fault : {Fault::LinkAtSender, Fault::LinkAtReceiver, Fault::BlackHole, Fault::ErrorAtReceiver}) {
    for (int mode = 1; mode <= 2; mode++) {
      RigOptions o = rdma(true);
      o.mode = mode;
      o.seed = static_cast<uint64_t>(fault) * 2 + static_cast<uint64_t>(mode);
      Rig rig(o);
      halfWay(rig, 300);
      lift(rig);
      CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 170; }));
      inject(rig, fault, 0, Cut::Lose);
      CHECK(rig.allDone(kLimitNs));
      rig.stop();
      // A sender that was told "done" cannot send again what a NIC took with it before the flush: then, and only then,
      // both ends say so. Wrong data is never taken for right.
      const Stream& s = rig.streams()[0];
      const bool through = s.receiver->state() == End::State::Done;
      CHECK(through || !rig.warnings().empty());
      CHECK_EQ(s.receiver->wrong(), "");
      for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
    }
  }
}

/// What NCCL asked to be flushed was not, and it must not be told so.
TEST(net_rdma_a_flush_fails_with_its_connection) {
  constexpr uint64_t kHalf = 20;
  Rig rig(rdma(true));
  rig.fabric.needsNoFlush();
  rig.stream(0, 1, 0, 2 * kHalf).receiver->asksToFlush = false;
  End &sender = *rig.streams()[0].sender, &receiver = *rig.streams()[0].receiver;
  sender.limit = receiver.limit = kHalf;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kHalf; }));
  rig.stop();
  auto& connection = *static_cast<RecvConnection*>(static_cast<Connection*>(receiver.comm()));
  void* data =
      const_cast<uint8_t*>(static_cast<const uint8_t*>(receiver.buffers())) + (kHalf - 1) % kSlots * kSlotBytes;
  void *mr = receiver.memory(), *flush = nullptr;
  int size = 1, done = 0;
  CHECK_EQ(connection.iflush(1, &data, &size, &mr, &flush), ncclSuccess);
  CHECK(flush != nullptr);
  EngineDoor::holding(rig.engine(1), [&](int) { connection.fail("the test wants it"); });
  // Whoever owns it at the moment is not waited for: NCCL asks again.
  CHECK(Rig::within(kLimitNs, [&] {
    return connection.test(*static_cast<r2cc::Request*>(flush), &done, nullptr) != ncclSuccess || done != 0;
  }));
  CHECK_EQ(done, 0);
  rig.closeStreams();
}

/// What a NIC took is over for the sender's, and lost where it was not flushed: NCCL asks for it between the sender's
/// question and the receiver's count, and must not be told that it is done.
TEST(net_rdma_nothing_is_done_by_the_word_of_a_lane_that_is_gone) {
  constexpr uint64_t kHalf = 100;
  RigOptions o = rdma(true);
  o.mode = 1;
  Rig rig(o);
  halfWay(rig, 2 * kHalf);
  End &sender = *rig.streams()[0].sender, &receiver = *rig.streams()[0].receiver;
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  rig.fabric.takesAll();
  sender.askBelow = receiver.askBelow = kHalf;
  receiver.limit = UINT64_MAX;
  pause();  // its buffers are ready
  sender.limit = UINT64_MAX;
  pause();  // the NICs are done with all that fits into NCCL's slots
  receiver.askBelow = kHalf + 1;
  CHECK(Rig::within(kLimitNs, [&] { return receiver.done() == kHalf + 1; }));
  sender.askBelow = kHalf + 1;  // this one question shows it that its lane is done with all
  CHECK(Rig::within(kLimitNs, [&] { return sender.done() == kHalf + 1; }));
  rig.loseType(Type::Fenced, true);
  const int before = rig.seen(Type::Fenced);
  inject(rig, Fault::ErrorAtReceiver, 0, Cut::Lose);
  receiver.askBelow = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Fenced) > before; }));
  sender.askBelow = UINT64_MAX;
  pause();
  CHECK(sender.done() <= receiver.done());
  rig.loseType(Type::Fenced, false);
  finish(rig);
}

TEST(net_rdma_good_completions_behind_a_bad_one_count) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    RigOptions o = rdma(false);
    o.seed = seed;
    o.mode = 1 + static_cast<int>(seed % 2);
    Rig rig(o);
    rig.stream(0, 1, 0, 500);
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100; }));
    inject(rig, seed % 3 == 0 ? Fault::ErrorAtReceiver : Fault::LinkAtReceiver, 0, Cut::Lose);
    finish(rig);
  }
}

/// A drain takes its time. Meanwhile the receiver has nothing to say of the lane that the sender has given up.
TEST(net_rdma_a_lane_that_is_being_drained_is_not_reported_again) {
  RigOptions o = rdma(false);
  o.rails = 1;
  Rig rig(o);
  halfWay(rig, 200);
  rig.fabric.hold({1, 0}, Fabric::Call::Drain, true);
  inject(rig, Fault::ErrorAtReceiver, 0, Cut::Lose);
  lift(rig);
  CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.held({1, 0}, Fabric::Call::Drain) == 1; }));
  const int said = rig.seen(Type::Suspect);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK_EQ(rig.seen(Type::Suspect), said);
  rig.fabric.hold({1, 0}, Fabric::Call::Drain, false);
  finish(rig);
}

/// The receiver's leave to send goes over the lane, too. Where that is lost nothing of the sender's is under way, so no
/// error and no completion can be missing.
TEST(net_rdma_leave_that_does_not_come_ends_a_lane) {
  for (const int rails : {4, 1}) {
    RigOptions options = rdma(false);
    options.rails = rails;
    Rig rig(options);
    halfWay(rig, 2000);
    rig.fabric.stand({1, 0}, true);
    lift(rig);
    if (rails == 1) {
      CHECK(Rig::within(kLimitNs, [&] { return rig.decided(Type::Freeze) > 0; }));
      rig.fabric.stand({1, 0}, false);
    }
    CHECK(rig.allDone(kLimitNs));
    if (rails > 1) CHECK(rig.streams()[0].receiver->longestGapNs() < msToNs(1000) * check::slowness());
    rig.fabric.stand({1, 0}, false);
    finish(rig);
  }
}

/// It has asked for nothing, so there is no leave.
TEST(net_rdma_a_late_receiver_loses_no_lane) {
  Rig rig(rdma(false));
  halfWay(rig, 2000);
  const size_t freezes = rig.decided(Type::Freeze);
  rig.streams()[0].sender->limit = UINT64_MAX;
  pauseMs(1200);
  CHECK_EQ(rig.decided(Type::Freeze), freezes);
  lift(rig);
  CHECK(rig.allDone(kLimitNs));
  CHECK_EQ(rig.decided(Type::Freeze), freezes);
  finish(rig);
}

TEST(net_last_resort_when_all_nics_are_gone) {
  for (int mode = 1; mode <= 2; mode++) {
    RigOptions o = rdma(false);
    o.lastResort = true;
    o.mode = mode;
    Rig rig(o);
    halfWay(rig, 600);
    CHECK_EQ(rig.resort.counts().made, 0);  // nothing is kept ready on it
    allLinks(rig, false);
    rig.streams()[0].sender->limit = rig.streams()[0].receiver->limit = 500;
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 500; }));  // the job goes on
    CHECK(rig.resort.counts().made > 0);
    const auto said = rig.warnings();
    CHECK(said.size() == 1 && said[0].find("R2CC_LAST_RESORT_IFNAME") != std::string::npos);
    const int before = rig.seen(Type::Switched);
    allLinks(rig, true);
    CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Switched) > before; }));  // and back
    lift(rig);
    CHECK(rig.allDone(kLimitNs));
    rig.stop();
    CHECK_EQ(rig.streams()[0].receiver->wrong(), "");
    CHECK(rig.fabric.violations().empty() && rig.resort.violations().empty());
    CHECK(rig.fabric.lanes({0, 0}) > 0);
  }
}

TEST(net_last_resort_is_no_evidence) {
  RigOptions o = rdma(false);
  o.lastResort = true;
  Rig rig(o);
  halfWay(rig, 400);
  const int freezes = rig.seen(Type::Freeze);
  for (int rail = 0; rail < 4; rail++) rig.fabric.cut({0, rail}, Cut::Hold);  // silent everywhere but there
  lift(rig);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  CHECK_EQ(rig.seen(Type::Freeze), freezes);
  rig.fabric.healAll();
  finish(rig);
}
