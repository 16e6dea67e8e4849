#include "bench/programs/schedule.h"

#include <algorithm>

namespace r2cc::bench {

Region partOf(const Region& whole, uint64_t parts, uint64_t index) {
  const uint64_t base = whole.size() / parts;
  const uint64_t extra = whole.size() % parts;
  const uint64_t begin = whole.begin + index * base + std::min(index, extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

std::vector<Region> chunksOf(const Region& region, uint32_t chunkBytes) {
  const uint64_t most = chunkBytes / sizeof(float);
  std::vector<Region> chunks;
  for (uint64_t at = region.begin; at < region.end; at += most) chunks.push_back({at, std::min(at + most, region.end)});
  return chunks;
}

uint32_t SequenceBuilder::edge(int from, int to) {
  sequence_.edges.push_back({from, to});
  return static_cast<uint32_t>(sequence_.edges.size() - 1);
}

std::vector<uint32_t> SequenceBuilder::ring(const std::vector<int>& order) {
  std::vector<uint32_t> edges;
  if (order.size() < 2) return edges;
  for (size_t i = 0; i < order.size(); i++) edges.push_back(edge(order[i], order[(i + 1) % order.size()]));
  return edges;
}

int64_t SequenceBuilder::move(uint32_t edge, const Region& chunk, Action action) {
  Transfer transfer;
  transfer.edge = edge;
  transfer.action = action;
  transfer.bytes = static_cast<uint32_t>(chunk.size() * sizeof(float));
  transfer.sendOffset = transfer.receiveOffset = chunk.begin * sizeof(float);
  sequence_.transfers.push_back(transfer);
  return static_cast<int64_t>(sequence_.transfers.size()) - 1;
}

void SequenceBuilder::waitFor(int64_t transfer, const std::array<int64_t, 2>& others) {
  sequence_.transfers[static_cast<size_t>(transfer)].after = others;
}

std::vector<int64_t> appendRing(SequenceBuilder& builder, const std::vector<int>& order, const Region& region,
                                uint32_t chunkBytes) {
  const size_t n = order.size();
  const std::vector<uint32_t> edges = builder.ring(order);
  std::vector<std::vector<Region>> blocks;
  blocks.reserve(n);
  for (size_t block = 0; block < n; block++) blocks.push_back(chunksOf(partOf(region, n, block), chunkBytes));
  std::vector<int64_t> last(n, kNoTransfer);
  for (size_t step = 0; edges.size() == n && step < 2 * (n - 1); step++) {
    for (size_t at = 0; at < n; at++) {
      for (const Region& chunk : blocks[(at + 2 * n - step) % n]) {
        last[(at + 1) % n] = builder.move(edges[at], chunk, step < n - 1 ? Action::Reduce : Action::Store);
      }
    }
  }
  return last;
}

Sequence ringSequence(const std::vector<int>& order, const Region& region, uint32_t chunkBytes) {
  SequenceBuilder builder;
  appendRing(builder, order, region, chunkBytes);
  return builder.take();
}

Sequence copySequence(const Edge& edge, const Region& sent, const Region& received, uint32_t chunkBytes) {
  SequenceBuilder builder;
  const uint32_t only = builder.edge(edge.from, edge.to);
  for (const Region& chunk : chunksOf(sent, chunkBytes)) builder.move(only, chunk, Action::Store);
  Sequence sequence = builder.take();
  sequence.inPlace = false;
  for (Transfer& transfer : sequence.transfers) {
    transfer.receiveOffset = transfer.sendOffset - sent.begin * sizeof(float) + received.begin * sizeof(float);
  }
  return sequence;
}

}  // namespace r2cc::bench
