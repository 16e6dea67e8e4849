// --schedule: whole runs of four ranks on four hosts, whose NICs come and go while they run; and what runs over
// connections that were made before.
#include <atomic>

#include "bench/errors.h"
#include "bench/support/play.h"
#include "bench/support/ranks.h"
#include "bench/switching/tracks.h"
#include "check.h"

using namespace r2cc::bench;
using namespace r2cc::test;

namespace {

// NICs that would need 0.2 s for the data: a schedule is worth it.
Health slowNics(std::atomic<int>& uneven) {
  return {[] { return std::vector<NicState>(2, {1.0, 0.001}); }, [&uneven](int begins, bool) { uneven += begins; }, {}};
}

// Rank 2 is late every time: an iteration takes 10 ms everywhere, or a bit more, and a switch begins a few after it was
// agreed on.
Options changing(std::vector<Pretence> pretended, int iterations) {
  Options options = smallRun(Op::AllReduce);
  options.host = "host";
  options.schedule = r2cc::planner::Schedule::Auto;
  options.channels = 2;
  options.bytes = 20'044;
  options.chunkBytes = 256;
  options.iterations = iterations;
  for (int i = 0; i < iterations; i++) options.late.push_back({2, i, 10});
  options.pretended = std::move(pretended);
  return options;
}

// The lines with this event, without when they were written, who wrote them, and how long it took there.
std::string linesOf(const std::string& lines, const std::string& event) {
  std::string found;
  for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    const std::string line = lines.substr(at, lines.find('\n', at) - at);
    if (line.find("\"event\":\"" + event + "\"") == std::string::npos) continue;
    const size_t from = line.find("\"index\"");
    found += line.substr(from, line.find(",\"chose_us\"") - from) + "\n";
  }
  return found;
}

// All were exact and switched at the same iterations; what rank 0 says of it.
std::string sameOnAll(const std::vector<RankResult>& results) {
  const std::string first = linesOf(results.front().lines, "schedule");
  for (const RankResult& result : results) {
    CHECK_EQ(result.error, std::string());
    CHECK_EQ(result.wrong, 0U);
    CHECK_EQ(linesOf(result.lines, "schedule"), first);
  }
  CHECK_EQ(fakeComplaint(), std::string());
  CHECK_EQ(fakeOpenComms(), 0);
  return first;
}

}  // namespace

TEST(auto_all_ranks_switch_at_one_iteration_and_back) {
  std::atomic<int> uneven{0};
  Options options = changing({{1, 5, "fake0", 0}, {1, 40, "fake0", 100}}, 100);
  const std::string lines = sameOnAll(runAll(options, fakeNet({}, 2), slowNics(uneven)));
  CHECK_EQ(count(lines, "\"schedule\":"), 3U);
  CHECK_EQ(count(lines, "\"schedule\":\"ring\""), 2U);
  CHECK_EQ(count(lines, "\"epoch\":1,\"schedule\":\"chain\""), 1U);
  CHECK_EQ(count(lines, "\"capacities\":\"capacities 1:0=0\""), 1U);
  CHECK_EQ(count(lines, "\"connections\":0"), 3U);  // all were made ahead
  CHECK_EQ(uneven, 0);
}

TEST(auto_a_change_in_the_middle_of_a_switch_is_the_next_one_and_connects_what_it_needs) {
  std::atomic<int> uneven{0};
  Options options = changing({{1, 5, "fake0", 0}, {3, 15, "fake1", 50}}, 130);
  options.connect = Connect::Switch;
  options.slowToAgree = {2, 150};  // the second change comes while rank 2 is not ready for the first
  const std::string lines = sameOnAll(runAll(options, fakeNet({}, 2), slowNics(uneven)));
  CHECK_EQ(count(lines, "\"schedule\":\"chain\""), 2U);
  CHECK_EQ(count(lines, "\"capacities\":\"capacities 1:0=0\","), 1U);
  CHECK_EQ(count(lines, "\"capacities\":\"capacities 1:0=0 3:1=0.5\","), 1U);
  const size_t first = lines.find("\"epoch\":1");
  CHECK_EQ(lines.substr(first, lines.find('\n', first) - first).find("\"connections\":0"), std::string::npos);
  CHECK_EQ(uneven, 4);  // chains are running on each of them
}

TEST(auto_a_rank_that_never_answers_keeps_all_on_the_old_schedule) {
  std::atomic<int> uneven{0};
  Options options = changing({{1, 5, "fake0", 0}}, 50);
  options.slowToAgree = {2, 3'600'000};
  const std::string lines = sameOnAll(runAll(options, fakeNet({}, 2), slowNics(uneven)));
  CHECK_EQ(count(lines, "\"schedule\":"), 1U);
  CHECK_EQ(count(lines, "\"schedule\":\"ring\""), 1U);
}

TEST(auto_what_was_known_at_the_start_needs_no_switch_and_a_host_without_nics_has_no_plan) {
  std::atomic<int> uneven{0};
  Options options = changing({}, 5);
  const Health broken{[] { return std::vector<NicState>(2, {0.0, 0.001}); }, {}, {}};
  CHECK_EQ(count(sameOnAll(runAll(options, fakeNet({}, 2), broken)), "\"schedule\":\"ring\""), 1U);
  options.schedule = r2cc::planner::Schedule::Chain;
  const std::string lines = sameOnAll(runAll(options, fakeNet({}, 2), slowNics(uneven)));
  CHECK_EQ(count(lines, "\"epoch\":0,\"schedule\":\"chain\""), 1U);
  options.ranks = 2;
  options.late.clear();
  CHECK_EQ(count(sameOnAll(runAll(options, fakeNet({}, 2), slowNics(uneven))), "\"schedule\":\"ring\""), 1U);
}

TEST(auto_a_net_that_says_nothing_of_its_nics_is_refused) {
  for (const RankResult& result : runAll(changing({}, 0), fakeNet({}, 2))) {
    CHECK(result.error.find("NICs' health") != std::string::npos);
  }
}

TEST(auto_a_plan_s_parts_lie_on_connections_that_were_made_before_and_are_exact) {
  using namespace r2cc::planner;
  const std::vector<Node> nodes{{"a", {0, 1}, {}}, {"b", {2}, {}}, {"c", {3}, {}}, {"d", {4}, {}}};
  const Tracks tracks(nodes, 2, 2);
  CHECK_EQ(tracks.cycles().size(), 3U);
  CHECK_EQ(tracks.plans().size(), 8U);
  Plan plan;
  plan.parts.push_back({Kind::Ring, 0.25, {4, 2, 0, 1, 3}});
  for (int cycle = 0; cycle < 2; cycle++) {
    Part chain{Kind::Chain, 0.25, tracks.cycles()[static_cast<size_t>(cycle)]};
    chain.cycle = cycle;
    if (cycle == 1) chain.homes = {1};
    plan.parts.push_back(chain);
  }
  Part other{Kind::Ring, 0.25, tracks.cycles()[2]};  // a ring in another order, on one of that cycle's channels
  other.cycle = 2;
  other.homes = {0};
  plan.parts.push_back(other);
  constexpr uint64_t kElements = 4096;
  const std::vector<Sequence> programs = tracks.programs(plan, kElements, 1024);
  std::vector<double> sum(kElements, 0.0);
  for (size_t track = 0; track < programs.size(); track++) {
    CHECK_EQ(programs[track].edges.size(), tracks.plans()[track].sequence.edges.size());
    CHECK_EQ(programs[track].transfers.empty(), track == 4 || track == 7);
    Play play(programs[track], 5, kElements, track);
    CHECK(play.run());
    for (uint64_t i = 0; i < kElements; i++) {
      const double all = 1 + 64 + 4096 + 262144 + 16777216;
      sum[i] += play.dataOf(3)[i] == all ? 1 : 0;
      for (int rank = 0; rank < 5; rank++) CHECK_EQ(play.dataOf(rank)[i] == all, play.dataOf(3)[i] == all);
    }
  }
  CHECK(sum == std::vector<double>(kElements, 1.0));  // each element on one track
  for (const int cycle : {-1, 0, 7}) {                // none, another part's, and one that there is not
    plan.parts[2].cycle = cycle;
    CHECK(!THROWN(std::logic_error, tracks.programs(plan, kElements, 1024)).empty());
  }
}
