// Collectives on what is left of a cluster, against formulas; which ways connections take.
#include <cmath>
#include <numeric>
#include <string>

#include "check.h"
#include "planner/formulas.h"
#include "sim/hit.h"
#include "sim/solve.h"

using namespace r2cc::sim;

namespace {

constexpr double kBytes = 1e15;

bool almost(double a, double b, double within = 1e-6) { return std::abs(a / b - 1) <= within; }

/// Bandwidth alone; D/B is 1e12 us for hosts with one NIC.
Question asked(const char* arm, int nics = 1) {
  Question out;
  out.topology.hosts = 64;
  out.topology.nics = nics;
  out.topology.rateGbit = 8.0 / nics;
  out.topology.spine = false;
  out.cost.hopUs = out.cost.localHopUs = 0;
  out.cost.chunkBytes = 1;
  out.cost.ringEfficiency = out.cost.chainEfficiency = out.cost.stagedEfficiency = 1;
  out.bytes = static_cast<uint64_t>(kBytes);
  out.arm = arm;
  return out;
}

double time(const Question& question, const State& state) {
  return solve(question, state, false).timeUs * 1000 / kBytes;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

TEST(sim_arms_meet_their_formulas) {
  for (const int p : {3, 4, 8}) {
    for (const double x : {0.125, 0.25, 0.5}) {
      const State state{p, {{1, {1 - x}}}, 1};
      CHECK(almost(time(asked("balance"), state), r2cc::planner::balanceTime(p, x)));
      CHECK(almost(time(asked("chain"), state), r2cc::planner::lowerBound(p, x)));
      Question published = asked("published");
      published.pieces = 4;
      CHECK(almost(time(published, state), r2cc::planner::publishedTimes(p, x, x, 4).whole()));
      CHECK(almost(solve(asked("optcc"), state, false).boundUs * 1000 / kBytes, r2cc::planner::lowerBound(p, x)));
    }
  }
}

TEST(sim_takes_what_nccl_takes_by_its_own_table) {
  // 256 hosts of 8 GPUs, 64 MiB: NCCL's own model has 184 GB/s of the bus; a flat ring's hops alone would leave a
  // tenth.
  Question question = asked("balance", 8);
  question.nccl = r2cc::planner::NcclMachine{};
  question.nccl->localGBps = 450;
  question.topology.hosts = 256;
  question.topology.rateGbit = 400;
  question.topology.nvlinkGBps = 450;
  question.ranksPerNode = 8;
  question.bytes = 64 << 20;
  const Answer whole = solve(question, {256, {}, 1}, false);
  const double bus = 2 * 2047.0 / 2048 * static_cast<double>(question.bytes) / whole.timeUs / 1000;
  CHECK_EQ(whole.schedule, std::string("nvlstree/simple"));
  CHECK(almost(bus, 184, 0.01));
  // A host that lost a NIC sends two messages over seven, wherever it is: hardly any place of the trees has less.
  question.bytes = uint64_t{8} << 30;
  const auto with = [&](int host) {
    return solve(question, {256, {{host, {0, 1, 1, 1, 1, 1, 1, 1}}}, 1}, false).timeUs;
  };
  const double healthy = solve(question, {256, {}, 1}, false).timeUs;
  CHECK(with(0) > healthy * 1.03 && almost(with(0), with(255), 1e-6) && almost(with(0), with(100), 1e-6));
  // Where a NIC is gone for good, stock NCCL stands still, and one backup carries twice as much.
  question.arm = "stock";
  CHECK(with(100) > healthy * 1e6);
  question.arm = "migrate";
  CHECK(with(100) > healthy * 1.7 && with(100) < healthy * 2.1);
  // A ring that was asked for is one.
  question.arm = "ring";
  CHECK_EQ(solve(question, {256, {}, 1}, false).schedule, std::string("ring"));
  question.arm = "balance";
  // What is no AllReduce is a ring.
  question.op = "allgather";
  CHECK_EQ(solve(question, {256, {}, 1}, false).schedule, std::string("ring"));
}

TEST(sim_optcc_is_not_filled_for_longer_than_a_ring_takes) {
  for (const int p : {8, 256}) {
    Question question = asked("optcc", 2);
    question.topology.hosts = p;
    question.topology.rateGbit = 400;
    question.cost = r2cc::planner::Cost{};
    question.cost.hopUs = 5;
    question.cost.chunkBytes = 32768;
    question.bytes = uint64_t{1} << 28;
    const State state{p, {{1, {0, 1}}}, 1};
    const Answer found = solve(question, state, false);
    CHECK_EQ(found.schedule, std::string(p == 8 ? "optcc" : "ring"));
    question.arm = "balance";
    CHECK(found.timeUs <= solve(question, state, false).timeUs);
  }
}

TEST(sim_without_balance_a_backup_carries_twice) {
  const State state{4, {{0, {0, 1, 1, 1}}}, 1};
  CHECK(almost(time(asked("migrate", 4), state), r2cc::planner::backupTime(4, 1)));
  CHECK(almost(time(asked("balance", 4), state), r2cc::planner::balanceTime(4, 0.25)));
  CHECK_EQ(time(asked("stock", 4), state), kNever);
  const State slower{4, {{0, {0.5, 1, 1, 1}}}, 1};
  CHECK(almost(time(asked("stock", 4), slower), 2 * 1.5));
}

TEST(sim_groups_are_at_home_on_their_own_nics) {
  Question question = asked("stock", 4);
  question.groups = 4;
  CHECK(almost(time(question, {4, {}, 1}), 4 * 1.5));
  question.arm = "migrate";
  CHECK(almost(time(question, {4, {{0, {0, 1, 1, 1}}}, 1}), 8 * 1.5));
  question.arm = "balance";
  CHECK(almost(time(question, {4, {{0, {0, 1, 1, 1}}}, 1}), 4 * 2));
}

TEST(sim_bytes_are_where_the_nics_are) {
  const State state{4, {{1, {0, 1}}}, 1};
  const Answer found = solve(asked("chain", 2), state, true);
  CHECK(almost(sum(found.bytes.in[1]), kBytes));
  CHECK_EQ(found.bytes.in[1][0], 0.0);
  double sent = 0;
  double received = 0;
  for (const auto& host : found.bytes.out) sent += sum(host);
  for (const auto& host : found.bytes.in) received += sum(host);
  CHECK(almost(sent, received, 1e-12));
  CHECK(almost(sent, 6 * kBytes, 1e-9));
}

TEST(sim_a_host_with_nothing_stands_still) {
  CHECK_EQ(time(asked("allreduce", 2), {4, {{2, {0, 0}}}, 1}), kNever);
  // Two hosts without a rail in common, and nobody between them.
  const State apart{2, {{0, {0, 1}}, {1, {1, 0}}}, 1};
  CHECK_EQ(time(asked("balance", 2), apart), kNever);
  Question spine = asked("balance", 2);
  spine.topology.spine = true;
  CHECK(almost(time(spine, apart), 2.0));
}

TEST(sim_what_crosses_the_spine_is_bound_by_it) {
  Question question = asked("balance", 2);
  question.topology.spine = true;
  question.topology.pod = 2;
  CHECK(almost(time(question, {4, {}, 1}), 1.5));
  question.topology.oversubscription = 4;  // a pod's uplinks are half of one host's NICs
  CHECK(almost(time(question, {4, {}, 1}), 3));
  CHECK(almost(time(question, {4, {}, 0.5}), 6));
  question.topology.spine = false;
  CHECK_EQ(time(question, {4, {}, 1}), kNever);
}

TEST(sim_even_rails_hold_neighbours_up) {
  Question question = asked("chain_fixed", 2);
  const State state{4, {{1, {0, 1}}}, 1};
  CHECK(almost(time(question, state), 3));  // the neighbour's other rail takes what it sends elsewhere, too
  question.cost.evenRails = false;
  CHECK(almost(time(question, state), 2));
}

TEST(sim_a_hit_at_the_end_costs_nothing_and_at_the_beginning_what_is_left) {
  Recovery recovery;
  Fault fault{1, 0, 0, 0, kNever, true};
  for (const char* arm : {"migrate", "balance"}) {
    const HitAnswer first = hit(asked(arm, 4), {4, {}, 1}, fault, recovery);
    CHECK(almost(first.timeUs, solve(asked(arm, 4), {4, {{1, {0, 1, 1, 1}}}, 1}, false).timeUs));
    fault.atShare = 1;
    CHECK(almost(hit(asked(arm, 4), {4, {}, 1}, fault, recovery).timeUs, first.healthyUs));
    fault.atShare = 0;
  }
}

TEST(sim_a_hit_stalls_until_it_is_known_and_sends_some_again) {
  Recovery recovery;
  recovery.detectUs = 3e10;
  recovery.handshakeUs = 1e10;
  recovery.replayBytes = 1.5e12;
  const Fault fault{1, 0, 0.5, 0, kNever, true};
  const HitAnswer found = hit(asked("balance", 4), {4, {}, 1}, fault, recovery);
  CHECK(almost(found.stallUs, 4e10));
  CHECK_EQ(found.replayBytes, 3e12);
  CHECK(found.completed);
  CHECK(found.timeUs > found.healthyUs);
}

TEST(sim_stock_waits_and_dies) {
  Recovery recovery;
  recovery.toleranceUs = 7e6;
  recovery.resumeUs = 5e5;
  Fault fault{1, 0, 0.5, 0, 4e6, true};
  const HitAnswer waits = hit(asked("stock", 4), {4, {}, 1}, fault, recovery);
  CHECK(waits.completed);
  CHECK(almost(waits.timeUs, waits.healthyUs + 4.5e6));
  fault.durationUs = 8e6;
  const HitAnswer dies = hit(asked("stock", 4), {4, {}, 1}, fault, recovery);
  CHECK(!dies.completed);
  CHECK(almost(dies.timeUs, 0.5 * dies.healthyUs + 7e6));
}

TEST(sim_upstream_fails_over_to_the_other_port_only) {
  Recovery recovery;
  recovery.toleranceUs = 7e6;
  recovery.failoverUs = 3e7;
  Question question = asked("upstream", 4);
  Fault fault{1, 0, 0.5, 0.5, kNever, true};
  CHECK(!hit(question, {4, {}, 1}, fault, recovery).completed);
  question.topology.ports = 2;
  const HitAnswer found = hit(question, {4, {}, 1}, fault, recovery);
  CHECK(found.completed);
  CHECK(almost(found.stallUs, 3e7));
  CHECK(almost(found.timeUs, 1.5 * found.healthyUs + 3e7));
  fault.factor = 0;
  CHECK(!hit(question, {4, {}, 1}, fault, recovery).completed);
}
