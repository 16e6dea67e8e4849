// Which messages go over a lane in one iteration, in order: pure arithmetic, the same on every rank.
//
// A lane is one connection to a peer and one connection from a peer that work on the same region of the data. Chunks of
// no length are left out on both sides, so that the two ends of a connection always agree on the count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace r2cc::bench {

enum class Action { Store, Reduce };

struct Message {
  uint64_t offset = 0;  // bytes from the start of the send or receive buffer
  uint32_t bytes = 0;
  Action action = Action::Store;  // of a receive: overwrite, or add to what is there
  uint32_t needs = 0;             // messages of the lane's other direction to be complete before this one is posted
  uint32_t after = 0;             // messages of its own direction, the same
};

// Half-open range of float32 elements.
struct Region {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};

struct LaneSchedule {
  std::vector<Message> sends;
  std::vector<Message> receives;
};

// Part `index` of `parts` nearly equal parts.
Region partOf(const Region& whole, uint64_t parts, uint64_t index);

// Ring AllReduce in place (Patarasuk and Yuan 2009, as NCCL's ring): ranks-1 steps add and pass on, ranks-1 steps copy
// and pass on. A send waits for the receive that made its data; a final value is only received over a block whose
// partial sum has been sent.
LaneSchedule ringSchedule(int rank, int ranks, const Region& region, uint32_t chunkBytes);

// `sent` of the send buffer goes out, `received` of the receive buffer comes in; nothing waits for anything.
LaneSchedule copySchedule(const Region& sent, const Region& received, uint32_t chunkBytes);

// `once` so often, one after the other. As NCCL does it: the next begins on a connection when all that was sent on it
// is over, and all that came is here.
LaneSchedule inARow(const LaneSchedule& once, int times);

}  // namespace r2cc::bench
