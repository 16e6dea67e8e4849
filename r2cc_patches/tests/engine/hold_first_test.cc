// A connection whose lanes are refused from the start: a firewall that lets UDP pass, a limit of open files or memory.
#include "check.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kHoldNs = msToNs(2000), kLimitNs = msToNs(20000);

RigOptions with(bool rdma) {
  RigOptions o;
  o.rails = 2;
  o.holdNs = kHoldNs;
  o.needsAck = !rdma;
  return o;
}

}  // namespace

TEST(net_hold_a_first_connect_that_is_refused_everywhere_ends) {
  for (const bool rdma : {false, true}) {
    Rig rig(with(rdma));
    for (int rail = 0; rail < 2; rail++) rig.fabric.refuse({1, rail}, true);
    const Stream& s = rig.stream(0, 1, 0, 100);
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] {
      return s.sender->state() == End::State::Failed && s.receiver->state() == End::State::Failed;
    }));
    const auto said = [&](const std::string& what) {
      const std::vector<std::string> lines = rig.warnings();
      return std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.find(what) != std::string::npos; });
    };
    CHECK(said("no lane can be made to peer"));
    CHECK(said("no lane could be made on it for 2000 ms (R2CC_HOLD_MS)"));
    rig.stop();
  }
}

TEST(net_hold_a_first_connect_that_is_let_through_late_connects) {
  Rig rig(with(false));
  for (int rail = 0; rail < 2; rail++) rig.fabric.refuse({1, rail}, true);
  (void)rig.stream(0, 1, 0, 100);
  rig.start();
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  for (int rail = 0; rail < 2; rail++) rig.fabric.refuse({1, rail}, false);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
}
