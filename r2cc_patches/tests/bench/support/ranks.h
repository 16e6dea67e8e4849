// Whole runs of the bench, every rank a thread of this process, over the fake transport.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/switching/health.h"
#include "fake_net.h"

namespace r2cc::test {

struct RankResult {
  uint64_t wrong = 0;
  std::string error;
  std::string lines;
};

// Four ranks, little data that divides by nothing.
bench::Options smallRun(bench::Op op);

RankResult runRank(const bench::Options& options, const ncclNet_t& table, const bench::Health& health = {});
std::vector<RankResult> runAll(const bench::Options& base, const ncclNet_t& table, const bench::Health& health = {});

size_t count(const std::string& text, const std::string& part);

}  // namespace r2cc::test
