// Failover, end to end: two engines, several rails, numbered messages, one fault.
#include "check.h"
#include "net_rig.h"

using namespace r2cc;
using namespace r2cc::fake;

TEST(net_healthy_stream) {
  Rig rig({});
  rig.stream(0, 1, 0, 500);
  rig.start();
  CHECK(rig.allDone(msToNs(10000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

TEST(net_link_lost_mid_stream) {
  Rig rig({});
  rig.stream(0, 1, 0, 1000);
  rig.start();
  CHECK(Rig::within(msToNs(5000), [&] { return rig.delivered() > 500; }));
  rig.fabric.cut({0, 0}, Cut::Hold);
  rig.link(0, 0, false);
  CHECK(rig.allDone(msToNs(10000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.fabric.healAll();
}
