// Whole runs of the bench, every rank a thread of this process, over the fake transport.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench.h"
#include "bench/errors.h"
#include "bench/support/ports.h"
#include "bench/support/ranks.h"
#include "check.h"

using namespace r2cc::bench;
using namespace r2cc::test;

namespace {

void checkExact(const std::vector<RankResult>& results) {
  for (const RankResult& result : results) {
    CHECK_EQ(result.error, std::string());
    CHECK_EQ(result.wrong, 0U);
    CHECK_EQ(count(result.lines, "\"event\":\"iteration\""), 4U);
    CHECK_EQ(count(result.lines, "\"event\":\"progress\""), 4U);
    CHECK_EQ(count(result.lines, "\"event\":\"bench_end\""), 1U);
  }
  CHECK_EQ(fakeComplaint(), std::string());
  CHECK_EQ(fakeOpenComms(), 0);
}

}  // namespace

TEST(every_operation_is_exact_and_leaves_nothing_open) {
  for (const Op op : {Op::AllReduce, Op::Stream, Op::AllToAll}) checkExact(runAll(smallRun(op), fakeNet({}, 2)));
}

TEST(a_plan_of_every_kind_is_exact_and_its_corruption_is_caught) {
  using namespace r2cc::planner;
  Plan plan;
  plan.bytes = 80044;
  plan.parts = {{Kind::Chain, 0.3, {1, 2, 3, 0}},
                {Kind::Ring, 0.1, {2, 0, 1, 3}},
                {Kind::OptCC, 0.2, {1, 2, 3}, 0},
                {Kind::OptCC, 0.2, {3, 2, 1}, 0, true},
                {Kind::Published, 0.2, {0, 1, 2, 3}, 0, false, 0.5, 4}};
  Options options = smallRun(Op::AllReduce);
  options.bytes = 4;  // the plan says how many
  usePlan(options, plan);
  FakeFaults faults;
  faults.nullEvery = 3;
  faults.lateTests = 2;
  checkExact(runAll(options, fakeNet(faults, 2)));
  options.corrupt = {2, 1};
  const auto results = runAll(options, fakeNet({}, 2));
  for (size_t rank = 0; rank < results.size(); rank++) CHECK_EQ(results[rank].wrong, rank == 2 ? 1U : 0U);
}

TEST(a_late_rank_says_so_delays_all_and_changes_nothing) {
  Options options = smallRun(Op::AllReduce);
  options.late = {{2, 1, 60}};
  const std::vector<RankResult> results = runAll(options, fakeNet({}, 2));
  checkExact(results);
  for (size_t rank = 0; rank < results.size(); rank++) {
    CHECK_EQ(count(results[rank].lines, "\"event\":\"late\""), rank == 2 ? 2U : 0U);
  }
  CHECK_EQ(count(results[2].lines, "\"index\":1,\"ms\":60,\"phase\":\"begin\""), 1U);
}

TEST(time_ends_a_run_at_one_iteration_on_all_ranks) {
  Options options = smallRun(Op::Stream);
  options.iterations = 1'000'000'000;
  options.seconds = 1;
  std::string end;
  for (const RankResult& result : runAll(options, fakeNet({}, 2))) {
    CHECK_EQ(result.error, std::string());
    CHECK_EQ(result.wrong, 0U);
    const size_t at = result.lines.find("\"completed\":");
    const std::string mine = result.lines.substr(at, result.lines.find(',', at) - at);
    CHECK(mine != "\"completed\":0" && (end.empty() || end == mine));
    end = mine;
  }
  CHECK_EQ(fakeComplaint(), std::string());
}

TEST(a_nic_s_lost_carrier_is_counted_from_the_start_and_an_unknown_nic_is_refused) {
  CHECK(!CarrierWatch({0, "lo", 1}, 0).due());
  CHECK(!CarrierWatch({0, "no-such-nic", 1}, 1).due());
  CHECK(THROWN(UsageError, CarrierWatch({0, "no-such-nic", 1}, 0)).find("no-such-nic") != std::string::npos);
}

TEST(null_requests_and_late_completions_change_nothing) {
  for (const Op op : {Op::AllReduce, Op::AllToAll}) {
    FakeFaults faults;
    faults.nullEvery = 3;
    faults.lateTests = 2;
    faults.connectCalls = 5;
    checkExact(runAll(smallRun(op), fakeNet(faults, 3)));
    CHECK(fakeNullRequests() > 10);
  }
}

TEST(several_connections_a_peer_one_slot_and_tiny_data) {
  Options options = smallRun(Op::AllReduce);
  options.connectionsPerPeer = 3;
  options.slots = 1;
  checkExact(runAll(options, fakeNet({}, 4)));
  options.bytes = 4;  // fewer elements than connections: most have nothing to do
  checkExact(runAll(options, fakeNet({}, 4)));
}

void runInARow(Op op, const std::vector<int>& counts) {
  for (const int ranks : counts) {
    Options options = smallRun(op);
    options.ranks = ranks;
    options.slots = 3;
    for (const int times : {2, 5}) {
      options.inARow = times;
      FakeFaults faults;
      faults.nullEvery = 3;
      faults.lateTests = 2;
      checkExact(runAll(options, fakeNet(faults, 2)));
    }
  }
}

TEST(all_reduces_in_a_row_are_exact) { runInARow(Op::AllReduce, {2, 4}); }
TEST(streams_in_a_row_are_exact) { runInARow(Op::Stream, {2, 3}); }
TEST(all_to_alls_in_a_row_are_exact) { runInARow(Op::AllToAll, {2, 3}); }

TEST(two_ranks_and_32_slots) {
  Options options = smallRun(Op::AllReduce);
  options.ranks = 2;
  options.slots = 32;
  checkExact(runAll(options, fakeNet({}, 1)));
}

TEST(a_flipped_bit_on_the_wire_is_seen) {
  FakeFaults faults;
  faults.flipBitOfMessage = 100;
  uint64_t wrong = 0;
  for (const RankResult& result : runAll(smallRun(Op::AllReduce), fakeNet(faults, 2))) wrong += result.wrong;
  CHECK(wrong > 0);
}

TEST(the_self_test_s_corruption_is_caught_on_its_rank_in_its_iteration) {
  for (const Op op : {Op::AllReduce, Op::Stream, Op::AllToAll}) {
    Options options = smallRun(op);
    options.corrupt = {2, 1};
    const auto results = runAll(options, fakeNet({}, 2));
    for (size_t rank = 0; rank < results.size(); rank++) {
      CHECK_EQ(results[rank].error, std::string());
      CHECK_EQ(results[rank].wrong, rank == 2 ? 1U : 0U);
    }
    const std::string& lines = results[2].lines;
    const size_t at = lines.find("\"event\":\"iteration\",\"rank\":2,\"index\":1,");
    CHECK(at != std::string::npos);
    CHECK(lines.substr(at, lines.find('\n', at) - at).find("\"wrong_elements\":1}") != std::string::npos);
    CHECK_EQ(count(lines, "\"wrong_elements\":1"), 2U);  // that iteration and the end, no other
  }
}

TEST(transport_errors_end_every_rank_with_the_cause) {
  FakeFaults isend;
  isend.failIsendAfter = 50;
  FakeFaults test;
  test.failTestAfter = 200;
  FakeFaults unset;
  unset.leaveRequestUnset = true;
  FakeFaults sizes;
  sizes.shortSizes = true;
  const std::vector<std::pair<FakeFaults, std::string>> cases{
      {isend, "isend failed"}, {test, "test failed"}, {unset, "set no request"}, {sizes, "bytes instead of"}};
  for (const auto& [faults, cause] : cases) {
    bool named = false;
    for (const RankResult& result : runAll(smallRun(Op::AllReduce), fakeNet(faults, 2))) {
      CHECK(!result.error.empty());
      named |= result.error.find(cause) != std::string::npos;
    }
    CHECK(named);
  }
}

TEST(no_progress_ends_the_run_after_the_timeout) {
  FakeFaults faults;
  faults.neverDeliver = true;
  Options options = smallRun(Op::AllReduce);
  options.timeoutS = 1;
  bool named = false;
  for (const RankResult& result : runAll(options, fakeNet(faults, 2))) {
    CHECK(!result.error.empty());
    named |= result.error.find("no progress for 1 s") != std::string::npos;
  }
  CHECK(named);
}

TEST(ranks_with_different_options_refuse_to_start) {
  const ncclNet_t& table = fakeNet({}, 2);
  const uint16_t port = freePort();
  std::vector<std::future<RankResult>> ranks;
  for (int rank = 0; rank < 4; rank++) {
    Options options = smallRun(Op::AllReduce);
    options.rank = rank;
    options.rootPort = port;
    options.chunkBytes = rank == 2 ? 4096 : 1024;
    ranks.push_back(std::async(std::launch::async, [options, &table] { return runRank(options, table); }));
  }
  for (auto& rank : ranks) {  // each says it for itself, and the same
    CHECK_EQ(rank.get().error,
             "the ranks were started differently: --chunk-bytes is 1024 on ranks 0, 1, 3, 4096 on rank 2");
  }
}

// One after the other: the fake's devices are the process's, and virtual ones come behind those there are.
TEST(nics_in_a_row_become_one_and_connections_use_its_device) {
  ncclNet_t table = fakeNet({}, 3);
  table.makeVDevice = [](int* device, ncclNetVDeviceProps_t* parts) {
    static int made = 0;
    const bool right = made == 0 ? parts->ndevs == 2 && parts->devs[0] == 0 && parts->devs[1] == 1
                                 : parts->ndevs == 1 && parts->devs[0] == 2;
    *device = 3 + made++;
    return right ? ncclSuccess : ncclInternalError;
  };
  const Net net(table, 1, 2);
  CHECK_EQ(net.nics().size(), 2U);
  CHECK(net.nics()[0].device == 3 && net.nics()[1].device == 4);
  table.makeVDevice = nullptr;
  CHECK(THROWN(TransportError, Net(table, 1, 2)).find("cannot merge NICs") != std::string::npos);
  CHECK_EQ(Net(table, 1).nics().size(), 3U);
}

TEST(a_library_that_is_no_net_is_named) {
  CHECK(THROWN(TransportError, loadTable("libm.so.6", NetKind::Socket)).find("offers no Socket") != std::string::npos);
  CHECK(THROWN(TransportError, loadTable("/no/such.so", NetKind::Ib)).find("/no/such.so") != std::string::npos);
  CHECK(THROWN(TransportError, Net(fakeNet({}, 0), 1)).find("no NIC") != std::string::npos);
}
