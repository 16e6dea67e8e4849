#include "bench/programs/plan_schedule.h"

#include <algorithm>
#include <cmath>

namespace r2cc::bench {
namespace {

constexpr uint32_t kLeastChunk = 8192, kLeastOfHop = 2556;  // what messages cost would show, over many hops more
constexpr size_t kFillings = 256;                           // a pipeline is filled in this part of the time it works

// One shard of OptCC, which belongs to the first of `line`: the others add theirs along the line, which ends there, the
// straggler's is added, the result goes to him and back along the line. Connections carry the shard once each.
void appendShard(SequenceBuilder& builder, const std::vector<int>& line, const planner::Part& part,
                 const std::vector<Region>& chunks) {
  const uint32_t give = builder.edge(line.front(), part.straggler);
  const uint32_t take = builder.edge(part.straggler, line.front());
  std::vector<uint32_t> gather, spread;  // along the line; the last one of `gather` leads to the owner
  for (size_t i = 1; i < line.size(); i++) {
    gather.push_back(builder.edge(line[i], line[(i + 1) % line.size()]));
    spread.push_back(builder.edge(line[i - 1], line[i]));
  }
  for (const Region& chunk : chunks) {
    if (part.mirrored) builder.move(take, chunk, Action::Reduce);
    for (const uint32_t edge : gather) builder.move(edge, chunk, Action::Reduce);
    builder.move(give, chunk, part.mirrored ? Action::Store : Action::Reduce);
    if (!part.mirrored) builder.move(take, chunk, Action::Store);
    for (const uint32_t edge : spread) builder.move(edge, chunk, Action::Store);
  }
}

bool isPermutation(std::vector<int> order, int straggler, int ranks) {
  if (straggler >= 0) order.push_back(straggler);
  std::sort(order.begin(), order.end());
  for (int rank = 0; rank < static_cast<int>(order.size()); rank++) {
    if (order[static_cast<size_t>(rank)] != rank) return false;
  }
  return static_cast<int>(order.size()) == ranks;
}

/// Hops from the root to the farthest leaf.
size_t depthOf(const planner::Part& part) {
  std::vector<size_t> levels(1, 0);
  for (size_t i = 1; i < part.parents.size(); i++) levels.push_back(levels[static_cast<size_t>(part.parents[i])] + 1);
  return *std::max_element(levels.begin(), levels.end());
}

/// Parents before their children.
bool isTree(const std::vector<int>& parents, size_t ranks) {
  if (parents.size() != ranks || parents.front() != -1) return false;
  for (size_t i = 1; i < parents.size(); i++) {
    if (parents[i] < 0 || parents[i] >= static_cast<int>(i)) return false;
  }
  return true;
}

std::string sparedProblem(const planner::Part& part, int ranks) {
  std::vector<int> all;
  bool whole = part.spared.empty() || part.kind == planner::Kind::Published;
  for (const std::vector<int>& node : part.spared) {
    whole = whole && !node.empty();
    all.insert(all.end(), node.begin(), node.end());
  }
  std::sort(all.begin(), all.end());
  whole = whole && std::adjacent_find(all.begin(), all.end()) == all.end();
  whole = whole && (all.empty() || (all.front() >= 0 && all.back() < ranks && static_cast<int>(all.size()) < ranks));
  return whole ? "" : "what it spares is not some of the ranks, each once";
}

std::string problemOf(const planner::Part& part, int ranks) {
  const bool aside = part.kind == planner::Kind::OptCC;
  if (!isPermutation(part.order, aside ? part.straggler : -1, ranks)) {
    return "its order is not made of the ranks 0 to " + std::to_string(ranks - 1);
  }
  if (part.kind == planner::Kind::Tree && !isTree(part.parents, part.order.size())) {
    return "its parents are no tree: of the first rank -1, of each other one the place of one before it";
  }
  if (part.kind == planner::Kind::Direct) return "it is no part of an all-reduce";
  const bool special = aside || part.kind == planner::Kind::Published;
  if (special && (part.straggler < 0 || part.straggler >= ranks)) return "it has no straggler";
  if (!sparedProblem(part, ranks).empty()) return sparedProblem(part, ranks);
  if (part.kind == planner::Kind::Published && (part.pieces < 1 || part.y < 0 || part.y > 1 || ranks < 3)) {
    return "it takes three ranks, y from 0 to 1 and at least one piece";
  }
  return "";
}

}  // namespace

uint32_t pipelineChunk(const Region& region, size_t depth, uint32_t chunkBytes) {
  const uint64_t wanted = region.size() * sizeof(float) / (kFillings * std::max<size_t>(depth, 1));
  const uint64_t deep = kLeastOfHop * std::min<uint64_t>(depth, 64);
  const uint64_t least = std::min<uint64_t>(std::max<uint64_t>(kLeastChunk, deep), chunkBytes);
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted / sizeof(float) * sizeof(float), least, chunkBytes));
}

Sequence chainSequence(const std::vector<int>& order, const Region& region, uint32_t chunkBytes) {
  SequenceBuilder builder;
  std::vector<uint32_t> up, down;  // between place i and i + 1
  for (size_t i = 0; i + 1 < order.size(); i++) {
    up.push_back(builder.edge(order[i + 1], order[i]));
    down.push_back(builder.edge(order[i], order[i + 1]));
  }
  for (const Region& chunk : chunksOf(region, pipelineChunk(region, up.size(), chunkBytes))) {
    for (size_t i = up.size(); i-- > 0;) builder.move(up[i], chunk, Action::Reduce);
    for (const uint32_t edge : down) builder.move(edge, chunk, Action::Store);
  }
  return builder.take();
}

Sequence treeSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes) {
  SequenceBuilder builder;
  std::vector<uint32_t> up, down;  // of place i + 1
  for (size_t i = 1; i < part.order.size(); i++) {
    const int parent = part.order[static_cast<size_t>(part.parents[i])];
    up.push_back(builder.edge(part.order[i], parent));
    down.push_back(builder.edge(parent, part.order[i]));
  }
  for (const Region& chunk : chunksOf(region, pipelineChunk(region, 2 * depthOf(part), chunkBytes))) {
    for (size_t i = up.size(); i-- > 0;) builder.move(up[i], chunk, Action::Reduce);
    for (const uint32_t edge : down) builder.move(edge, chunk, Action::Store);
  }
  return builder.take();
}

Sequence optccSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes) {
  SequenceBuilder builder;
  const size_t owners = part.order.size();
  std::vector<int> line = part.order;
  for (size_t owner = 0; owner < owners; owner++) {
    const Region shard = partOf(region, owners, owner);
    appendShard(builder, line, part, chunksOf(shard, pipelineChunk(shard, owners, chunkBytes)));
    std::rotate(line.begin(), line.begin() + 1, line.end());
  }
  return builder.take();
}

uint32_t chunkOf(const planner::Part& part, const Region& region, uint32_t chunkBytes) {
  const size_t ranks = part.order.size();
  if (part.kind == planner::Kind::Chain) return pipelineChunk(region, ranks - 1, chunkBytes);
  if (part.kind == planner::Kind::Tree) return pipelineChunk(region, 2 * depthOf(part), chunkBytes);
  if (part.kind == planner::Kind::OptCC) return pipelineChunk(partOf(region, ranks, 0), ranks, chunkBytes);
  return chunkBytes;
}

Sequence partSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes) {
  switch (part.kind) {
    case planner::Kind::Ring:
      return ringSequence(part.order, region, chunkBytes);
    case planner::Kind::Chain:
      return chainSequence(part.order, region, chunkBytes);
    case planner::Kind::Tree:
      return treeSequence(part, region, chunkBytes);
    case planner::Kind::OptCC:
      return optccSequence(part, region, chunkBytes);
    case planner::Kind::Published:
      return publishedSequence(part, region, chunkBytes);
    case planner::Kind::Direct:
      break;  // problemOf
  }
  return {};
}

std::string problemOf(const planner::Plan& plan, int ranks) {
  if (plan.parts.empty()) return "it has no parts";
  if (plan.op != "allreduce") return "its op is '" + plan.op + "', and the bench runs allreduce";
  for (size_t i = 0; i < plan.parts.size(); i++) {
    const std::string problem = problemOf(plan.parts[i], ranks);
    if (!problem.empty()) return "part " + std::to_string(i) + ": " + problem;
  }
  return "";
}

}  // namespace r2cc::bench
