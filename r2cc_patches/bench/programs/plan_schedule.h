// The parts of a plan (planner.h) as programs.
#pragma once

#include "bench/programs/schedule.h"
#include "planner/planner.h"

namespace r2cc::bench {

// One flow of a part, over `region`. Chunks are smaller than `chunkBytes` where the pipeline would otherwise be filled
// for much of its time.
Sequence partSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes);

Sequence treeSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes);
Sequence chainSequence(const std::vector<int>& order, const Region& region, uint32_t chunkBytes);
Sequence optccSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes);
Sequence publishedSequence(const planner::Part& part, const Region& region, uint32_t chunkBytes);

// A pipeline `depth` hops deep is full for all but a small part of its time with chunks of this size.
uint32_t pipelineChunk(const Region& region, size_t depth, uint32_t chunkBytes);

// What the part's pipelines hand on at a time; of a ring `chunkBytes`.
uint32_t chunkOf(const planner::Part& part, const Region& region, uint32_t chunkBytes);

// Empty when the plan can be run by so many ranks, else what is wrong.
std::string problemOf(const planner::Plan& plan, int ranks);

}  // namespace r2cc::bench
