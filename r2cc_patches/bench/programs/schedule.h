// What an operation moves, as a program: a list of transfers that is right when done one after the other. Pure
// arithmetic, the same on every rank. weave.h finds out what may be done at the same time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace r2cc::bench {

enum class Action : uint8_t { Store, Reduce };

// Half-open range of float32 elements.
struct Region {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};

// Part `index` of `parts` nearly equal parts.
Region partOf(const Region& whole, uint64_t parts, uint64_t index);

// One connection: an ordered stream from one rank to another.
struct Edge {
  int from = 0;
  int to = 0;
};

constexpr int64_t kNoTransfer = -1;

// One message over one edge. Two transfers of an in-place program concern the same bytes or none in common.
struct Transfer {
  uint32_t edge = 0;
  Action action = Action::Store;  // of the receiver: overwrite, or add to what is there
  uint32_t bytes = 0;
  uint64_t sendOffset = 0;  // bytes from the start of the send buffer
  uint64_t receiveOffset = 0;
  // Transfers that concern the sender and must be over, although their bytes do not say so.
  std::array<int64_t, 2> after{kNoTransfer, kNoTransfer};
};

struct Sequence {
  std::vector<Edge> edges;
  std::vector<Transfer> transfers;
  bool inPlace = true;  // else one buffer is sent from and another received into
};

// Appends to a Sequence.
class SequenceBuilder {
 public:
  uint32_t edge(int from, int to);
  // Edge i goes from order[i] to the next; the last one closes the ring. Nothing for fewer than two ranks.
  std::vector<uint32_t> ring(const std::vector<int>& order);
  // Returns the transfer's index.
  int64_t move(uint32_t edge, const Region& chunk, Action action);
  void waitFor(int64_t transfer, const std::array<int64_t, 2>& others);
  Sequence take() { return std::move(sequence_); }

 private:
  Sequence sequence_;
};

// `region` in chunks of at most so many bytes; the last one is shorter.
std::vector<Region> chunksOf(const Region& region, uint32_t chunkBytes);

// Ring AllReduce in place (Patarasuk and Yuan 2009, as NCCL's ring): n-1 steps add and pass on, n-1 steps copy and pass
// on. A step is a whole block, so that each connection always has chunks in flight that depend on nothing recent.
Sequence ringSequence(const std::vector<int>& order, const Region& region, uint32_t chunkBytes);
// The same over edges that are there; returns the last transfer that each of `order` receives.
std::vector<int64_t> appendRing(SequenceBuilder& builder, const std::vector<int>& order, const Region& region,
                                uint32_t chunkBytes);

// `sent` of one rank's send buffer to `received` of another's receive buffer.
Sequence copySequence(const Edge& edge, const Region& sent, const Region& received, uint32_t chunkBytes);

}  // namespace r2cc::bench
