// The first time that NCCL asks for a flush: until then nobody knows whether its GPU needs one.
#include <atomic>

#include "check.h"
#include "rig/faults.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);

RigOptions rdma() {
  RigOptions o;
  o.needsAck = false;
  o.anyOrder = o.drains = o.gpu = true;
  o.rails = 4;
  return o;
}

/// Counts the parts of a message of which the ends have told each other.
void spyParts(Rig& rig, std::atomic<int>& most) {
  rig.spy = [&](int, const NicAddress&, const std::vector<uint8_t>& bytes) {
    const auto parsed = Parsed::open(bytes.data(), bytes.size());
    if (!parsed) return;
    parsed->forEach([&](Type type, Reader& reader) {
      Switch message;
      if (type != Type::Switch) return;
      reader(message);
      if (message.parts > most) most = message.parts;
    });
  };
}

/// NCCL never flushes messages of LL and LL128. A collective of another protocol comes later over the same connection:
/// then `slots` messages are here at once, and it asks for a flush of each. Returns how many were under way at once.
int firstFlushes(uint64_t slots, int rails, int64_t lateNs) {
  RigOptions o = rdma();
  o.rails = rails;
  o.mode = 2;
  o.slots = slots;
  o.bytes = 56 << 10;
  Rig rig(o);
  std::atomic<int> most{0};
  spyParts(rig, most);
  const Stream& s = rig.stream(0, 1, 0, 4000);
  s.receiver->asksToFlush = false;
  rig.fabric.needsNoFlush();
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 50; }));
  inject(rig, Fault::LinkAtBoth, 0, fake::Cut::Lose);
  CHECK(Rig::within(kLimitNs, [&] { return most > 1; }));
  const uint64_t cut = rig.delivered();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > cut + 40; }));
  const uint64_t limit = rig.delivered() + 10;
  s.sender->limit = s.receiver->limit = limit;
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == limit; }));
  rig.fabric.needsNoFlush(false);
  rig.fabric.endFlushesLate(lateNs);
  s.receiver->asksToFlush = true;
  s.receiver->askBelow = limit;
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->posted() == limit + slots; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  s.receiver->askBelow = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > limit + 50; }));
  rig.stop();
  for (const std::string& violation : rig.fabric.violations()) CHECK_EQ(violation, "");
  CHECK_EQ(s.receiver->wrong(), "");
  return s.receiver->mostFlushes;
}

}  // namespace

TEST(net_rdma_the_first_flush_makes_all_parts_visible) { CHECK(firstFlushes(2, 4, 0) >= 1); }

TEST(net_rdma_first_flushes_are_asked_for_at_once) { CHECK_EQ(firstFlushes(6, 8, msToNs(3)), 6); }

// NCCL_GDR_FLUSH_DISABLE, sockets as the last resort, the nets of others: asked, and done without a request.
TEST(net_rdma_a_transport_that_has_nothing_to_flush_fails_over) {
  for (uint64_t seed = 100; seed < 103; seed++) {
    RigOptions o = rdma();
    o.seed = seed;
    Rig rig(o);
    rig.fabric.needsNoFlush();
    rig.fabric.flushesNothing();
    const Stream& s = rig.stream(0, 1, 0, 2000000);
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 200; }));
    for (int i = 0; i < 2; i++) {
      inject(rig, Fault::LinkAtReceiver, 0, fake::Cut::Lose);
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      revert(rig, Fault::LinkAtReceiver, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    rig.stop();
    CHECK(s.receiver->state() == End::State::Running);
    CHECK_EQ(s.receiver->wrong(), "");
  }
}
