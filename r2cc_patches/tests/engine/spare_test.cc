// A resting stream whose end was lost: the connecting end makes another when its path is back, and the old one ends.
#include "check.h"
#include "rig/door.h"
#include "rig/faults.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {
constexpr int64_t kLimitNs = msToNs(20000);
constexpr uint64_t kMessages = 100;
}  // namespace

TEST(net_spare_streams_whose_end_was_lost_do_not_pile_up) {
  RigOptions options;
  options.rails = 2;
  Rig rig(options);
  const Stream& s = rig.stream(0, 1, 0, 1000 * kMessages);
  s.sender->limit = s.receiver->limit = kMessages;
  rig.start();
  const auto held = [&](int host) { return EngineDoor::everyStream(rig.engine(host)); };
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kMessages && held(0) > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const size_t made = held(0), taken = held(1);
  for (int i = 0; i < 2; i++) {
    EngineDoor::deafen(rig.engine(1));
    inject(rig, Fault::LinkAtBoth, 0, fake::Cut::Lose);
    CHECK(Rig::within(kLimitNs, [&] { return held(0) < made; }));
    revert(rig, Fault::LinkAtBoth, 0);
    CHECK(Rig::within(kLimitNs, [&] { return held(0) == made; }));
    CHECK(Rig::within(msToNs(2000), [&] { return held(1) <= taken; }));
  }
  rig.stop();
}
