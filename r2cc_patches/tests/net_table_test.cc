// The fault table, a test for each moment at which the fault comes.
#include "check.h"
#include "net_faults.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

void runAll(When when) {
  uint64_t seed = 1;
  for (const Fault fault : kFaults) {
    for (const Traffic traffic : kTraffics) {
      Case c;
      c.fault = fault, c.when = when, c.traffic = traffic, c.seed = ++seed;
      c.needsAck = seed % 3 != 0;
      c.cut = seed % 2 == 0 ? Cut::Hold : Cut::Lose;
      const int64_t start = nowNs();
      const std::string problem = runCase(c);
      const int64_t took = (nowNs() - start) / 1000000;
      if (took > 1500) std::fprintf(stderr, "slow: %s: %lld ms\n", c.name().c_str(), static_cast<long long>(took));
      CHECK_EQ(problem.empty() ? "" : c.name() + ": " + problem, "");
    }
  }
}

}  // namespace

TEST(net_fault_during_connect) { runAll(When::Connect); }
TEST(net_fault_at_first_message) { runAll(When::FirstMessage); }
TEST(net_fault_in_mid_stream) { runAll(When::MidStream); }
TEST(net_fault_at_last_message) { runAll(When::LastMessage); }
TEST(net_fault_while_idle) { runAll(When::Idle); }
TEST(net_fault_during_failover) { runAll(When::DuringFailover); }
TEST(net_fault_during_failback) { runAll(When::DuringFailback); }
