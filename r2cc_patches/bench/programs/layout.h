// Which connections a run has: the same list on every rank, from the options alone.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/programs/schedule.h"

namespace r2cc::bench {

// A piece of the data that is moved by one program over connections of its own.
struct FlowPlan {
  int part = 0;     // of the plan; of all-to-all, the distance of the peers less one
  int channel = 0;  // counted over all parts
  Sequence sequence;
  std::vector<int> nics;  // by edge: its home at both ends
  int turn = -1;          // where that is gone (planner::turnOf); none: over all others
};

// Edges have the NIC of their channel: c modulo `nics`.
std::vector<FlowPlan> flowsOf(const Options& options, int nics);

// How many channels each part of a plan has, `channels` on average or up to half more (four times as many where a part
// carries very little): so that all connections carry about as much. Where they share a NIC each gets as much of it as
// the others; one with more to carry would be left over at the end.
std::vector<int> channelsOf(const planner::Plan& plan, int channels);

// Bytes that go over each edge of a sequence in one turn.
std::vector<uint64_t> bytesOf(const Sequence& sequence);

}  // namespace r2cc::bench
