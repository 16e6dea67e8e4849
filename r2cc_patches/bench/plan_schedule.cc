#include "plan_schedule.h"

#include <algorithm>
#include <cmath>

namespace r2cc::bench {
namespace {

constexpr uint32_t kLeastChunk = 8192, kLeastOfHop = 2048;  // what messages cost would show, over many hops more
constexpr size_t kFillings = 96;                            // a pipeline is filled in this part of the time it works
// Segments that the ring of OptCC is ahead of the straggler, which then never waits for it.
constexpr size_t kLag = 8;

std::vector<int> without(const std::vector<int>& order, int rank) {
  std::vector<int> rest;
  std::copy_if(order.begin(), order.end(), std::back_inserter(rest), [rank](int other) { return other != rank; });
  return rest;
}

// The four stages of OptCC over segments of one chunk an owner. Owner j of a segment's chunk j ends with its sum over
// the ring.
class OptCC {
 public:
  OptCC(const planner::Part& part, const Region& region, uint32_t chunkBytes)
      : mirrored_(part.mirrored),
        owners_(part.order.size()),
        chunks_(chunksOf(region, pipelineChunk(region, owners_, chunkBytes))),
        ring_(builder_.ring(part.order)) {
    for (const int owner : part.order) {
      toStraggler_.push_back(builder_.edge(owner, part.straggler));
      fromStraggler_.push_back(builder_.edge(part.straggler, owner));
    }
  }

  // In every tick a segment begins and each that has begun goes on by a step, so that what a step needs was sent a
  // tick ago, while the links were busy with other segments.
  Sequence take() {
    const size_t segments = (chunks_.size() + owners_ - 1) / owners_;
    const size_t gatherAt = owners_ - 1 + kLag;
    for (size_t tick = 0; tick < segments + gatherAt + owners_; tick++) {
      const size_t oldest = tick < gatherAt + owners_ ? 0 : tick - gatherAt - owners_;
      for (size_t segment = oldest; segment <= tick && segment < segments; segment++) step(segment, tick - segment);
    }
    return builder_.take();
  }

 private:
  void step(size_t segment, size_t step) {
    if (mirrored_ && step == 0) all(segment, fromStraggler_, Action::Reduce);
    if (step + 1 < owners_) hop(segment, step + 1, Action::Reduce);
    if (step + 1 == owners_) exchange(segment);
    const size_t gatherAt = owners_ - 1 + kLag;
    if (step >= gatherAt && step + 1 < gatherAt + owners_) hop(segment, step - gatherAt, Action::Store);
  }

  // A mirrored segment's sum holds what the straggler gave at the start.
  void exchange(size_t segment) {
    all(segment, toStraggler_, mirrored_ ? Action::Store : Action::Reduce);
    if (!mirrored_) all(segment, fromStraggler_, Action::Store);
  }

  void all(size_t segment, const std::vector<uint32_t>& edges, Action action) {
    for (size_t owner = 0; owner < owners_; owner++) move(segment, owner, edges[owner], action);
  }

  // Each chunk goes on from the rank so many places behind its owner.
  void hop(size_t segment, size_t behind, Action action) {
    for (size_t owner = 0; owner < owners_; owner++) {
      move(segment, owner, ring_[(owner + behind) % owners_], action);
    }
  }

  void move(size_t segment, size_t owner, uint32_t edge, Action action) {
    const size_t chunk = segment * owners_ + owner;
    if (chunk < chunks_.size()) builder_.move(edge, chunks_[chunk], action);
  }

  bool mirrored_;
  size_t owners_;
  SequenceBuilder builder_;
  std::vector<Region> chunks_;
  std::vector<uint32_t> ring_, toStraggler_, fromStraggler_;
};

bool isPermutation(std::vector<int> order, int straggler, int ranks) {
  if (straggler >= 0) order.push_back(straggler);
  std::sort(order.begin(), order.end());
  for (int rank = 0; rank < static_cast<int>(order.size()); rank++) {
    if (order[static_cast<size_t>(rank)] != rank) return false;
  }
  return static_cast<int>(order.size()) == ranks;
}

std::string problemOf(const planner::Part& part, int ranks) {
  const bool aside = part.kind == planner::Kind::OptCC;
  if (!isPermutation(part.order, aside ? part.straggler : -1, ranks)) {
    return "its order is not made of the ranks 0 to " + std::to_string(ranks - 1);
  }
  const bool special = aside || part.kind == planner::Kind::Published;
  if (special && (part.straggler < 0 || part.straggler >= ranks)) return "it has no straggler";
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

Sequence optccSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes) {
  return OptCC(part, region, chunkBytes).take();
}

// T1 and T2: a ring of all and, beside it, one of the healthy on their own share. T3, when the rank before the
// straggler is through with both: it gives the straggler the healthy ones' sum piece by piece; each piece that is
// complete there goes on along the ring, chunk by chunk.
Sequence publishedSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes) {
  SequenceBuilder builder;
  const auto moved = static_cast<uint64_t>(std::llround(part.y * static_cast<double>(region.size())));
  const Region global{region.begin, region.end - moved};
  const Region partial{region.end - moved, region.end};
  std::vector<int> line = part.order;
  std::rotate(line.begin(), std::find(line.begin(), line.end(), part.straggler), line.end());
  const std::vector<int> healthy = without(line, part.straggler);
  const int64_t globalDone = appendRing(builder, line, global, chunkBytes).back();
  const int64_t partialDone = appendRing(builder, healthy, partial, chunkBytes).back();
  const uint32_t give = builder.edge(line.back(), line.front());
  std::vector<uint32_t> onward;
  for (size_t i = 0; i + 1 < line.size(); i++) onward.push_back(builder.edge(line[i], line[i + 1]));

  std::vector<Region> chunks;  // as the healthy ones' ring cut them
  for (size_t block = 0; block < healthy.size(); block++) {
    for (const Region& chunk : chunksOf(partOf(partial, healthy.size(), block), chunkBytes)) chunks.push_back(chunk);
  }
  const auto pieces = static_cast<uint64_t>(part.pieces);
  for (uint64_t piece = 0; piece < pieces; piece++) {
    const Region here = partOf({0, chunks.size()}, pieces, piece);
    int64_t given = kNoTransfer;
    for (uint64_t i = here.begin; i < here.end; i++) {
      given = builder.move(give, chunks[i], Action::Reduce);
      if (i == 0) builder.waitFor(given, {globalDone, partialDone});
    }
    for (uint64_t i = here.begin; i < here.end; i++) {
      const int64_t begun = builder.move(onward.front(), chunks[i], Action::Store);
      builder.waitFor(begun, {given, kNoTransfer});
      for (size_t hop = 1; hop < onward.size(); hop++) builder.move(onward[hop], chunks[i], Action::Store);
    }
  }
  return builder.take();
}

Sequence partSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes) {
  switch (part.kind) {
    case planner::Kind::Ring:
      return ringSequence(part.order, region, chunkBytes);
    case planner::Kind::Chain:
      return chainSequence(part.order, region, chunkBytes);
    case planner::Kind::OptCC:
      return optccSequence(part, region, chunkBytes);
    case planner::Kind::Published:
      return publishedSequence(part, region, chunkBytes);
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
