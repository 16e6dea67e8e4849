// Messages that take long on a healthy RDMA lane, and a thread of NCCL's that asks late.
#include <sys/resource.h>

#include "base/file_limit.h"
#include "check.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(30000);
constexpr uint64_t kBefore = 100;

RigOptions rdma(int rails) {
  RigOptions o;
  o.needsAck = false;
  o.anyOrder = o.drains = true;
  o.rails = rails;
  o.slots = 2;
  return o;
}

/// Freezes while so many messages each take so long.
size_t freezes(int rails, int ms, uint64_t messages) {
  Rig rig(rdma(rails));
  const Stream& s = rig.stream(0, 1, 0, kBefore + messages);
  s.sender->limit = s.receiver->limit = kBefore;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kBefore; }));
  const size_t before = rig.decided(Type::Freeze);
  rig.fabric.messagesTake(msToNs(ms));
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(s.receiver->wrong(), "");
  return rig.decided(Type::Freeze) - before;
}

}  // namespace

TEST(net_rdma_messages_of_a_tenth_of_a_second_are_waited_for) { CHECK_EQ(freezes(1, 100, 6), 0u); }

// A registered buffer goes as one message of up to 1 GiB: one verdict too many teaches how long they take.
TEST(net_rdma_messages_that_outlast_the_patience_are_learned_from) { CHECK(freezes(4, 400, 5) <= 2); }

TEST(net_rdma_a_message_that_outlasts_every_patience_arrives) { CHECK(freezes(1, 4500, 1) <= 3); }

TEST(net_rdma_a_sender_that_asks_late_loses_no_lane) {
  Rig rig(rdma(4));
  const Stream& s = rig.stream(0, 1, 0, 2000);
  s.sender->limit = s.receiver->limit = kBefore;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kBefore; }));
  const size_t before = rig.decided(Type::Freeze);
  rig.fabric.takesAll();
  s.receiver->limit = kBefore + 2;
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100));  // so that a send is taken at once: it is not tried again
  s.sender->askBelow = kBefore;
  s.sender->limit = kBefore + 2;
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kBefore + 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  CHECK_EQ(rig.decided(Type::Freeze), before);
  s.sender->askBelow = UINT64_MAX;
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
}

/// The receiver has it, NCCL asks and asks, and no completion ever comes: another lane's word ends it.
TEST(net_rdma_a_completion_that_is_lost_costs_its_lane_alone) {
  for (const int mode : {1, 2}) {
    RigOptions o = rdma(4);
    o.mode = mode;
    Rig rig(o);
    const Stream& s = rig.stream(0, 1, 0, kBefore + 200);
    s.sender->limit = s.receiver->limit = kBefore;
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kBefore; }));
    const size_t before = rig.decided(Type::Freeze);
    rig.fabric.endSendsLate(msToNs(60'000));
    s.sender->limit = s.receiver->limit = kBefore + 1;
    CHECK(Rig::within(msToNs(3000), [&] { return rig.decided(Type::Freeze) > before; }));
    rig.fabric.endSendsLate(0);
    s.sender->limit = s.receiver->limit = UINT64_MAX;
    CHECK(rig.allDone(kLimitNs));
    CHECK_EQ(rig.decided(Type::Freeze), before + 1);
    rig.stop();
    CHECK_EQ(s.receiver->wrong(), "");
  }
}

TEST(net_file_limit_is_raised_and_never_lowered) {
  rlimit before{};
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlim_t most = std::min<rlim_t>(before.rlim_max, 65536);
  for (const rlim_t soft : {std::min<rlim_t>(512, before.rlim_max), before.rlim_max}) {
    rlimit set{soft, before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &set), 0);
    raiseFileLimit();
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &set), 0);
    CHECK_EQ(set.rlim_cur, std::max(soft, most));
    CHECK_EQ(set.rlim_max, before.rlim_max);
  }
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}
