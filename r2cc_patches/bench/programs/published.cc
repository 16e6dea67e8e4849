// The published schedule (R2CC-AllReduce), for one degraded node or for a level of its recursive splitting.
#include <algorithm>
#include <cmath>
#include <map>

#include "bench/programs/plan_schedule.h"

namespace r2cc::bench {
namespace {

using Ranks = std::vector<int>;

// What goes through the spared nodes when the rings are over. A chunk's hub, a healthy rank, is given the sums of the
// spared nodes but the first, and gives that one all it has; there the result is complete, and goes along the line of
// the healthy, whose last is the hub, and from the line to the other spared nodes. Hubs take turns, so that the
// healthy carry the same; with one node spared they do so anyhow. A node's ranks pass on to each other.
class Through {
 public:
  Through(SequenceBuilder& builder, std::vector<Ranks> spared, Ranks healthy)
      : builder_(builder), spared_(std::move(spared)), healthy_(std::move(healthy)) {}

  // A rank sends nothing here before what it is given here is over: two transfers of the rings.
  void after(int rank, int64_t transfer) { over_[rank].push_back(transfer); }

  // Returns the transfer after which the first spared node has it all.
  int64_t gather(size_t number, const Region& chunk) {
    const Ranks line = lineOf(number);
    for (size_t node = 1; node < spared_.size(); node++) {
      const Ranks& ranks = spared_[node];
      for (size_t i = 1; i < ranks.size(); i++) move(ranks[i - 1], ranks[i], chunk, Action::Reduce);
      move(ranks.back(), line.back(), chunk, Action::Reduce);
    }
    int64_t given = move(line.back(), spared_[0].front(), chunk, Action::Reduce);
    for (size_t i = 1; i < spared_[0].size(); i++) {
      given = move(spared_[0][i - 1], spared_[0][i], chunk, Action::Reduce);
    }
    return given;
  }

  void spread(size_t number, const Region& chunk, int64_t given) {
    const Ranks line = lineOf(number);
    const int64_t begun = move(spared_[0].back(), line.front(), chunk, Action::Store);
    builder_.waitFor(begun, {given, kNoTransfer});
    for (size_t i = 1; i < line.size(); i++) move(line[i - 1], line[i], chunk, Action::Store);
    back(spared_[0], chunk);
    for (size_t node = 1; node < spared_.size(); node++) {
      move(line[(node - 1) % line.size()], spared_[node].back(), chunk, Action::Store);
      back(spared_[node], chunk);
    }
  }

 private:
  Ranks lineOf(size_t number) const {
    Ranks line = healthy_;
    if (spared_.size() == 1) return line;
    const size_t step = spared_[0].size();  // whole nodes, where all have as many ranks
    std::rotate(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(number * step % line.size()), line.end());
    return line;
  }

  // From a node's last rank to the ones before it.
  void back(const Ranks& ranks, const Region& chunk) {
    for (size_t i = ranks.size(); i-- > 1;) move(ranks[i], ranks[i - 1], chunk, Action::Store);
  }

  int64_t move(int from, int to, const Region& chunk, Action action) {
    const auto [known, added] = edges_.try_emplace({from, to}, 0);
    if (added) known->second = builder_.edge(from, to);
    const int64_t transfer = builder_.move(known->second, chunk, action);
    const std::vector<int64_t>& over = over_[from];
    if (added && over.size() == 2) builder_.waitFor(transfer, {over[0], over[1]});
    return transfer;
  }

  SequenceBuilder& builder_;
  const std::vector<Ranks> spared_;
  const Ranks healthy_;
  std::map<std::pair<int, int>, uint32_t> edges_;
  std::map<int, std::vector<int64_t>> over_;  // by rank
};

Ranks without(const Ranks& order, const std::vector<Ranks>& spared) {
  Ranks rest = order;
  for (const Ranks& node : spared) {
    for (const int rank : node) rest.erase(std::remove(rest.begin(), rest.end(), rank), rest.end());
  }
  return rest;
}

void note(Through& through, const Ranks& order, const std::vector<int64_t>& last) {
  for (size_t i = 0; i < order.size(); i++) through.after(order[i], last[i]);
}

}  // namespace

// T1 and T2: a ring of all and, beside it, one of the healthy on their own share. T3, piece by piece: what the healthy
// have goes through the spared nodes. Each piece that is complete there goes on, chunk by chunk.
Sequence publishedSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes) {
  SequenceBuilder builder;
  const auto moved = static_cast<uint64_t>(std::llround(part.y * static_cast<double>(region.size())));
  const Region global{region.begin, region.end - moved};
  const Region partial{region.end - moved, region.end};
  const std::vector<Ranks> spared = part.spared.empty() ? std::vector<Ranks>{{part.straggler}} : part.spared;
  Ranks line = part.order;
  std::rotate(line.begin(), std::find(line.begin(), line.end(), spared[0].front()), line.end());
  const Ranks healthy = without(line, spared);
  Through through(builder, spared, healthy);
  note(through, line, appendRing(builder, line, global, chunkBytes));
  note(through, healthy, appendRing(builder, healthy, partial, chunkBytes));
  std::vector<Region> chunks;  // as the healthy ones' ring cut them
  for (size_t block = 0; block < healthy.size(); block++) {
    for (const Region& chunk : chunksOf(partOf(partial, healthy.size(), block), chunkBytes)) chunks.push_back(chunk);
  }
  const auto pieces = static_cast<uint64_t>(part.pieces);
  for (uint64_t piece = 0; piece < pieces; piece++) {
    const Region here = partOf({0, chunks.size()}, pieces, piece);
    int64_t given = kNoTransfer;
    for (uint64_t i = here.begin; i < here.end; i++) given = through.gather(i, chunks[i]);
    for (uint64_t i = here.begin; i < here.end; i++) through.spread(i, chunks[i], given);
  }
  return builder.take();
}

}  // namespace r2cc::bench
