// The fault table, a test for each moment at which the fault comes.
#include "budget.h"
#include "check.h"
#include "rig/faults.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

void run(const Case& c) {
  if (!c.makesSense()) return;
  const int64_t start = nowNs();
  const std::string problem = runCase(c);
  const int64_t took = (nowNs() - start) / 1000000;
  if (took > 1500) std::fprintf(stderr, "slow: %s: %lld ms\n", c.name().c_str(), static_cast<long long>(took));
  CHECK_EQ(problem.empty() ? "" : c.name() + ": " + problem, "");
}

constexpr int kBoth = 0;

void runAll(When when, Count count = Count::One, int mode = kBoth, bool onlyNic = false) {
  // A part is other faults and traffic for each moment, so that all of them are in it somewhere.
  const auto every = check::much<uint64_t>(1, 8);
  const uint64_t first = (3 * static_cast<uint64_t>(when) + static_cast<uint64_t>(count)) % every;
  uint64_t seed = 1;
  for (const Fault fault : kFaults) {
    for (const Traffic traffic : kTraffics) {
      Case c;
      c.fault = fault, c.when = when, c.traffic = traffic, c.count = count, c.seed = ++seed, c.onlyNic = onlyNic;
      c.needsAck = seed % 3 != 0;
      c.plain = seed % 3 == 1;
      c.cut = seed % 2 == 0 ? Cut::Hold : Cut::Lose;
      if (seed % every != first) continue;
      for (c.mode = 1; c.mode <= 2; c.mode++) {
        if (mode == kBoth || mode == c.mode) run(c);
      }
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
TEST(net_fault_during_failback_migrate) { runAll(When::DuringFailback, Count::One, 1); }
TEST(net_fault_during_failback_balance) { runAll(When::DuringFailback, Count::One, 2); }
TEST(net_fault_during_switch_to_balance) { runAll(When::DuringBalance); }
TEST(net_fault_while_balanced) { runAll(When::Balanced); }
TEST(net_fault_of_two_nics) { runAll(When::MidStream, Count::Two); }
TEST(net_fault_of_all_nics_but_one) { runAll(When::MidStream, Count::AllButOne); }
TEST(net_fault_of_all_nics_for_a_while) { runAll(When::MidStream, Count::All); }
TEST(net_fault_of_all_nics_while_idle) { runAll(When::Idle, Count::All); }
TEST(net_fault_of_all_nics_during_connect) { runAll(When::Connect, Count::All); }
TEST(net_fault_of_the_only_nic_during_connect) { runAll(When::Connect, Count::One, kBoth, true); }
TEST(net_fault_of_the_only_nic_at_first_message) { runAll(When::FirstMessage, Count::One, kBoth, true); }
TEST(net_fault_of_the_only_nic_in_mid_stream) { runAll(When::MidStream, Count::One, kBoth, true); }
TEST(net_fault_of_the_only_nic_at_last_message) { runAll(When::LastMessage, Count::One, kBoth, true); }
TEST(net_fault_of_the_only_nic_while_idle) { runAll(When::Idle, Count::One, kBoth, true); }
TEST(net_fault_of_the_only_nic_during_failover) { runAll(When::DuringFailover, Count::One, kBoth, true); }
