// The bench's programs in a network that is arithmetic; and where migrating connections go.
#include <cmath>

#include "check.h"
#include "sim/programs.h"

using namespace r2cc::sim;

namespace {

Question programOf(const char* arm, int hosts, int nics) {
  Question out;
  out.topology.hosts = hosts;
  out.topology.nics = nics;
  out.topology.rateGbit = 0.2;
  out.topology.spine = false;
  out.cost.evenRails = false;
  out.cost.ringEfficiency = 1;
  out.cost.chunkBytes = 8192;
  out.bytes = 32u << 20;
  out.arm = arm;
  return out;
}

State without(int hosts, int nics, std::initializer_list<int> degraded) {
  State out{hosts, {}, 1};
  Left left(static_cast<size_t>(nics), 1);
  left[0] = 0;
  for (const int host : degraded) out.left.emplace_back(host, left);
  return out;
}

/// Over the healthy ring.
double ratio(const char* arm, int hosts, int nics, std::initializer_list<int> degraded, int flows) {
  const double healthy = programUs(programOf("ring", hosts, nics), {hosts, {}, 1}, {nics, 3});
  return programUs(programOf(arm, hosts, nics), without(hosts, nics, degraded), {flows, 3}) / healthy;
}

bool within(double found, double least, double most) { return found >= least && found <= most; }

}  // namespace

TEST(sim_programs_take_what_bandwidth_takes_where_nothing_waits) {
  const Question ring = programOf("ring", 4, 2);
  const double bytesPerUs = 2 * 25, bytes = 1.5 * (32u << 20);
  CHECK(within(programUs(ring, {4, {}, 1}, {2, 3}) * bytesPerUs / bytes, 1, 1.02));
  CHECK(within(ratio("chain", 4, 2, {1}, 2), 1.3, 1.36));  // the bound is 1.333
  CHECK(within(ratio("tree", 8, 2, {1}, 2), 1.14, 1.17));  // the bound is 1.143
}

TEST(sim_programs_wait_where_messages_wait_for_each_other) {
  CHECK(within(ratio("published", 4, 2, {1}, 2), 1.62, 1.77));     // its formula: 1.708
  CHECK(within(ratio("published", 4, 4, {1}, 4), 1.62, 1.78));     // its formula: 1.25; measured 1.704
  CHECK(within(ratio("published", 4, 2, {1, 2}, 2), 2.25, 2.48));  // measured 2.363
  CHECK(within(ratio("chain_fixed", 4, 4, {1}, 4), 1.15, 1.29));   // measured 1.201 and 1.231
}

TEST(sim_programs_pass_at_once_what_a_nic_has_saved) {
  const int burst = 65536;
  const Question published = programOf("published", 8, 2), ring = programOf("ring", 8, 2);
  const State two = without(8, 2, {1, 2}), whole{8, {}, 1};
  const double healthy = programUs(ring, whole, {2, 3}), faster = programUs(ring, whole, {2, 3, burst});
  // A ring's NICs always work: only the full bucket at the start is gained, at each end of a cable.
  CHECK(faster < healthy && faster > healthy - 2 * burst / 25.0);
  // Hop by hop, where NICs wait between messages of 128 KiB, half of a message goes at once. Measured 2.162 to 2.177.
  CHECK(within(programUs(published, two, {2, 3}) / healthy, 2.28, 2.45));
  CHECK(within(programUs(published, two, {2, 3, burst}) / faster, 2.06, 2.28));
}

TEST(sim_programs_need_a_rail_that_both_have) {
  State apart{3, {{0, {1, 0}}, {1, {0, 1}}}, 1};
  CHECK_EQ(programUs(programOf("ring", 3, 2), apart, {2, 3}), kNever);
}

TEST(sim_programs_are_the_same_each_time) {
  const State state = without(5, 4, {1});
  const Question question = programOf("chain_fixed", 5, 4);
  CHECK_EQ(programUs(question, state, {4, 3}), programUs(question, state, {4, 3}));
}

TEST(sim_migrating_connections_spread_over_several_backups) {
  for (const int backups : {1, 2, 3}) {
    Question question = programOf("migrate", 4, 4);
    question.topology.backups = backups;
    question.cost.hopUs = question.cost.localHopUs = 0;
    const double healthy = solve(programOf("migrate", 4, 4), {4, {}, 1}, false).timeUs;
    const double hopless = solve(question, {4, {}, 1}, false).timeUs;
    CHECK(hopless < healthy);
    const double found = solve(question, without(4, 4, {1}), false).timeUs / hopless;
    CHECK(std::abs(found - (1 + 1.0 / backups)) < 1e-9);
  }
}
