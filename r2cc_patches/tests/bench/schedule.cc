// Programs of every kind, played with no network: they must finish, be right in any order of events, and load every
// rank as the model says.
#include "bench/programs/schedule.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "bench/programs/layout.h"
#include "bench/programs/plan_schedule.h"
#include "bench/support/play.h"
#include "check.h"
#include "planner/shapes/tree.h"

using namespace r2cc::bench;
using namespace r2cc::planner;
using r2cc::test::Play;

namespace {

std::vector<int> ranksFrom(int first, int count) {
  std::vector<int> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), first);
  return order;
}

// NCCL's binary tree over ranks, one a node; or `fan`, in which the root has all the others.
Part treePart(int ranks, bool fan) {
  Part part{Kind::Tree, 1, {}};
  std::map<int, int> places;
  for (const int slot : treeDownwards(ranks)) {
    const int parent = treeParent(ranks, slot);
    part.parents.push_back(parent < 0 || fan ? std::min(parent, 0) : places[parent]);
    places[slot] = static_cast<int>(part.order.size());
    part.order.push_back(slot);
  }
  return part;
}

// The straggler, where there is one, is rank 0.
std::vector<Part> everyKind(int ranks) {
  std::vector<Part> parts{{Kind::Ring, 1, ranksFrom(0, ranks)}, {Kind::Chain, 1, ranksFrom(0, ranks)}};
  for (const bool mirrored : {false, true}) parts.push_back({Kind::OptCC, 1, ranksFrom(1, ranks - 1), 0, mirrored});
  for (const bool fan : {false, true}) parts.push_back(treePart(ranks, fan));
  if (ranks < 3) return parts;
  for (const int pieces : {1, 4, 100}) {
    parts.push_back({Kind::Published, 1, ranksFrom(0, ranks), 0, false, 0.5, pieces});
    parts.push_back({Kind::Published, 1, ranksFrom(0, ranks), ranks - 1, false, 1, pieces});
  }
  // One node of two ranks; then several, more of them than a rank has healthy neighbours.
  if (ranks >= 4) parts.push_back({Kind::Published, 1, ranksFrom(0, ranks), 1, false, 0.5, 4, -1, {{1, 2}}});
  if (ranks >= 5) parts.push_back({Kind::Published, 1, ranksFrom(0, ranks), 1, false, 1, 2, -1, {{1}, {4}}});
  if (ranks >= 6) parts.push_back({Kind::Published, 1, ranksFrom(0, ranks), 4, false, 0.3, 3, -1, {{4, 5}, {0, 1}}});
  if (ranks >= 8)
    parts.push_back({Kind::Published, 1, ranksFrom(0, 8), 7, false, 1, 8, -1, {{7}, {5}, {1}, {3}, {2}, {0}}});
  return parts;
}

double sumOfAll(int ranks, int times) {
  double sum = 0;
  for (int rank = 0; rank < ranks; rank++) sum += static_cast<double>(uint64_t{1} << (6 * rank));
  for (int turn = 1; turn < times; turn++) sum *= ranks;
  return sum;
}

void checkExact(const Sequence& sequence, int ranks, uint64_t elements, uint64_t seed, int times = 1) {
  Play play(sequence, ranks, elements, seed, times);
  CHECK(play.run());
  for (int rank = 0; rank < ranks; rank++) {
    CHECK(play.dataOf(rank) == std::vector<double>(elements, sumOfAll(ranks, times)));
  }
}

struct Load {
  uint64_t sent = 0, received = 0;
};

std::vector<Load> loads(const Sequence& sequence, int ranks) {
  std::vector<Load> all(static_cast<size_t>(ranks));
  const std::vector<uint64_t> bytes = bytesOf(sequence);
  for (size_t edge = 0; edge < bytes.size(); edge++) {
    all[static_cast<size_t>(sequence.edges[edge].from)].sent += bytes[edge];
    all[static_cast<size_t>(sequence.edges[edge].to)].received += bytes[edge];
  }
  return all;
}

bool near(uint64_t bytes, double wanted, double slack) {
  return std::abs(static_cast<double>(bytes) - wanted) <= slack;
}

}  // namespace

TEST(every_kind_is_exact_for_every_number_of_ranks_and_odd_sizes) {
  uint64_t seed = 1;
  for (const int ranks : {2, 3, 4, 5, 6, 7, 8}) {
    for (const Part& part : everyKind(ranks)) {
      for (const uint64_t elements : {1U, 3U, 7U, 64U, 1021U}) {
        for (const uint32_t chunkBytes : {4U, 64U, 131072U}) {
          if (elements == 1021U && chunkBytes == 4U) continue;
          checkExact(partSequence(part, {0, elements}, chunkBytes), ranks, elements, seed++);
        }
      }
    }
  }
}

TEST(every_kind_is_exact_several_times_in_a_row) {
  uint64_t seed = 1;
  for (const int ranks : {2, 4}) {
    for (const Part& part : everyKind(ranks)) {
      for (const int times : {2, 3}) checkExact(partSequence(part, {0, 333}, 64), ranks, 333, seed++, times);
    }
  }
}

TEST(every_rank_carries_what_the_model_says) {
  const uint64_t elements = 840 * 64;
  const double d = elements * sizeof(float);
  for (const int p : {3, 4, 5, 8}) {
    const double slack = 8 * 4096;  // whole chunks
    const auto all = ranksFrom(0, p);
    for (const Load& load : loads(ringSequence(all, {0, elements}, 1024), p)) {
      CHECK(near(load.sent, 2.0 * (p - 1) / p * d, slack) && near(load.received, 2.0 * (p - 1) / p * d, slack));
    }
    const std::vector<Load> chain = loads(chainSequence(all, {0, elements}, 1024), p);
    for (int rank = 0; rank < p; rank++) {
      const double wanted = rank == 0 || rank == p - 1 ? d : 2 * d;
      CHECK(near(chain[static_cast<size_t>(rank)].sent, wanted, 0));
      CHECK(near(chain[static_cast<size_t>(rank)].received, wanted, 0));
    }
    const std::vector<Load> tree = loads(treeSequence(treePart(p, false), {0, elements}, 1024), p);
    for (int slot = 0; slot < p; slot++) {
      const double wanted = treeDegrees(p)[static_cast<size_t>(slot)] * d;
      CHECK(near(tree[static_cast<size_t>(slot)].sent, wanted, 0));
      CHECK(near(tree[static_cast<size_t>(slot)].received, wanted, 0));
    }
    for (const bool mirrored : {false, true}) {
      const std::vector<Load> optcc =
          loads(optccSequence({Kind::OptCC, 1, ranksFrom(1, p - 1), 0, mirrored}, {0, elements}, 1024), p);
      for (int rank = 0; rank < p; rank++) {
        const double wanted = rank == 0 ? d : (2.0 * p - 3) / (p - 1) * d;
        CHECK(near(optcc[static_cast<size_t>(rank)].sent, wanted, slack));
        CHECK(near(optcc[static_cast<size_t>(rank)].received, wanted, slack));
      }
    }
    const double y = 0.25;
    const std::vector<Load> published =
        loads(publishedSequence({Kind::Published, 1, all, 0, false, y, 4}, {0, elements}, 1024), p);
    CHECK(near(published[0].received, (2.0 * (p - 1) / p * (1 - y) + y) * d, slack));
    CHECK(near(published[0].sent, (2.0 * (p - 1) / p * (1 - y) + y) * d, slack));
    const double healthy = (2.0 * (p - 1) / p * (1 - y) + 2.0 * (p - 2) / (p - 1) * y + y) * d;
    for (int rank = 1; rank < p; rank++) CHECK(near(published[static_cast<size_t>(rank)].received, healthy, slack));
  }
}

TEST(what_spares_several_nodes_loads_the_healthy_alike) {
  const uint64_t elements = 840 * 64;
  const double d = elements * sizeof(float);
  const Part part{Kind::Published, 1, {0, 4, 2, 1, 3}, 4, false, 0.5, 4, -1, {{4}, {1}}};
  const std::vector<Load> all = loads(publishedSequence(part, {0, elements}, 1024), 5);
  for (int rank = 0; rank < 5; rank++) {
    const double healthy = 2 * 2.0 / 3 * 0.5 + 0.5 * (1 + 1.0 / 3);  // the partial ring, then the line and its share
    const double wanted = 2 * 4.0 / 5 * 0.5 + (rank == 4 || rank == 1 ? 0.5 : healthy);
    CHECK(near(all[static_cast<size_t>(rank)].sent, wanted * d, 8 * 4096));
    CHECK(near(all[static_cast<size_t>(rank)].received, wanted * d, 8 * 4096));
  }
}

TEST(ring_sends_what_theory_says) {
  const std::vector<End> ends = weave(ringSequence(ranksFrom(0, 4), {0, 4096}, 1024), 1);
  CHECK_EQ(ends.size(), 2U);
  for (const End& end : ends) {
    uint64_t bytes = 0;
    for (const Message& message : end.messages) bytes += message.bytes;
    CHECK_EQ(bytes, 4096 * sizeof(float) * 2 * 3 / 4);  // 2 (n-1)/n of the data
    CHECK_EQ(end.messages.size(), 6U * 4U);
    CHECK_EQ(end.peer, end.sends ? 2 : 0);
    if (end.sends) CHECK(end.messages.front().needs.begin() == end.messages.front().needs.end());
  }
}

TEST(a_plan_s_parts_cover_the_data_and_every_channel_has_its_own_connections) {
  Options options;
  options.ranks = 4;
  options.rank = 0;
  options.bytes = 49388;
  options.channels = 3;
  options.chunkBytes = 256;
  Plan plan;
  plan.bytes = options.bytes;
  plan.parts = {{Kind::Chain, 0.4, {1, 2, 3, 0}}, {Kind::OptCC, 0.35, {1, 3, 2}, 0}, {Kind::Ring, 0.25, {0, 1, 2, 3}}};
  CHECK_EQ(problemOf(plan, 4), std::string());
  options.plan = plan;
  const std::vector<FlowPlan> flows = flowsOf(options, 2);
  CHECK(flows.size() >= 9 && flows.back().part == 2);
  std::map<uint64_t, uint64_t> cover;  // chunks that rank 0 is sent a result of, or makes
  for (size_t i = 0; i < flows.size(); i++) {
    CHECK(i == 0 || flows[i].part == flows[i - 1].part || flows[i].part == flows[i - 1].part + 1);
    CHECK_EQ(flows[i].channel, static_cast<int>(i));
    for (const Transfer& transfer : flows[i].sequence.transfers) cover[transfer.sendOffset] = transfer.bytes;
  }
  uint64_t at = 0;
  for (const auto& [offset, bytes] : cover) {
    CHECK_EQ(offset, at);
    at += bytes;
  }
  CHECK_EQ(at, options.bytes);
}

TEST(a_plan_that_these_ranks_cannot_run_is_refused) {
  const auto problem = [](const Part& part) {
    Plan plan;
    plan.parts = {part};
    return problemOf(plan, 4);
  };
  CHECK_EQ(problem({Kind::Ring, 1, {3, 1, 2, 0}}), std::string());
  CHECK_EQ(problem({Kind::OptCC, 1, {3, 1, 2}, 0}), std::string());
  CHECK_EQ(problem(treePart(4, false)), std::string());
  for (const std::vector<int>& parents :
       std::vector<std::vector<int>>{{}, {0, 0, 0, 0}, {-1, 0, 0}, {-1, -1, 0, 0}, {-1, 0, 2, 0}, {-1, 2, 0, 0}}) {
    Part bad = treePart(4, false);
    bad.parents = parents;
    CHECK(!problem(bad).empty());
  }
  for (const Part& bad :
       {Part{Kind::Ring, 1, {0, 1, 2}}, Part{Kind::Ring, 1, {0, 1, 2, 2}}, Part{Kind::Chain, 1, {1, 2, 3, 4}},
        Part{Kind::OptCC, 1, {0, 1, 2, 3}, 0}, Part{Kind::OptCC, 1, {0, 1, 2, 3}},
        Part{Kind::Published, 1, {0, 1, 2, 3}}, Part{Kind::Published, 1, {0, 1, 2, 3}, 4, false, 0.5, 1},
        Part{Kind::Published, 1, {0, 1, 2, 3}, 0, false, 0.5, 0},
        Part{Kind::Published, 1, {0, 1, 2, 3}, 0, false, 0.5, 1, -1, {{0}, {0}}},
        Part{Kind::Published, 1, {0, 1, 2, 3}, 0, false, 0.5, 1, -1, {{0}, {}}},
        Part{Kind::Published, 1, {0, 1, 2, 3}, 0, false, 0.5, 1, -1, {{0, 1}, {2, 3}}}}) {
    CHECK(!problem(bad).empty());
  }
  CHECK(!problemOf(Plan{}, 4).empty());
}

TEST(parts_cover_the_whole_without_overlap) {
  for (const uint64_t parts : {1U, 3U, 16U}) {
    uint64_t at = 10;
    for (uint64_t i = 0; i < parts; i++) {
      const Region part = partOf({10, 110}, parts, i);
      CHECK_EQ(part.begin, at);
      at = part.end;
    }
    CHECK_EQ(at, 110U);
  }
}

TEST(the_next_of_a_row_begins_when_the_one_before_is_over) {
  const Sequence ring = ringSequence(ranksFrom(0, 4), {0, 4000}, 512);
  const std::vector<End> once = weave(ring, 1);
  const std::vector<End> row = weave(ring, 1, 3);
  for (size_t end = 0; end < row.size(); end++) {
    CHECK_EQ(row[end].messages.size(), 3 * once[end].messages.size());
    for (size_t i = 0; i < row[end].messages.size(); i++) {
      CHECK_EQ(row[end].messages[i].turn, i / once[end].messages.size());
      CHECK_EQ(row[end].messages[i].offset, once[end].messages[i % once[end].messages.size()].offset);
    }
  }
}

TEST(copy_cuts_both_directions_alike) {
  const Sequence copy = copySequence({0, 1}, {0, 1000}, {5000, 6000}, 512);
  const std::vector<End> from = weave(copy, 0);
  const std::vector<End> to = weave(copy, 1);
  CHECK_EQ(from[0].messages.size(), to[0].messages.size());
  CHECK_EQ(bytesOf(copy)[0], 4000U);
  CHECK_EQ(to[0].messages.front().offset, 20000U);
  CHECK_EQ(to[0].messages.back().bytes, from[0].messages.back().bytes);
}

TEST(both_ends_of_every_edge_agree_in_every_operation) {
  for (const Op op : {Op::AllReduce, Op::Stream, Op::AllToAll}) {
    Options options;
    options.ranks = 4;
    options.op = op;
    options.bytes = 49388;
    options.channels = 3;
    options.connectionsPerPeer = 2;
    options.chunkBytes = 256;
    for (const FlowPlan& flow : flowsOf(options, 2)) {
      std::map<uint32_t, std::vector<std::vector<uint32_t>>> sizes;
      for (int rank = 0; rank < 4; rank++) {
        for (const End& end : weave(flow.sequence, rank)) {
          sizes[end.edge].emplace_back();
          for (const Message& message : end.messages) sizes[end.edge].back().push_back(message.bytes);
        }
      }
      CHECK_EQ(sizes.size(), flow.sequence.edges.size());
      for (const auto& [edge, ends] : sizes) CHECK(ends.size() == 2 && ends[0] == ends[1]);
    }
  }
}

TEST(flows_of_one_rank_cover_all_elements_once) {
  Options options;
  options.rank = 2;
  options.ranks = 4;
  options.op = Op::AllToAll;
  options.bytes = 16384;
  options.channels = 4;
  options.connectionsPerPeer = 3;
  options.chunkBytes = 100;
  std::map<uint64_t, int> received;
  for (const FlowPlan& flow : flowsOf(options, 2)) {
    for (const End& end : weave(flow.sequence, 2)) {
      if (end.sends) continue;
      for (const Message& message : end.messages) {
        for (uint64_t b = message.offset; b < message.offset + message.bytes; b += 4) received[b / 4]++;
      }
    }
  }
  CHECK_EQ(received.size(), 3U * 1024U);  // all but the own block
  for (const auto& [element, times] : received) CHECK(times == 1 && element / 1024 != 2);
}
