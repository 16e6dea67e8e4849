// The lines of docs/reference/contracts.md ("r2cc_bench") as text; nothing is written here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/programs/placement.h"
#include "bench/switching/auto_schedule.h"
#include "bench/transport/flow.h"
#include "bench/transport/net.h"

namespace r2cc::bench {

// `loads`: of this host's NICs, where a plan says; else empty.
std::string startLine(const Options& options, const Net& net, const std::vector<Flow>& flows, const NamedLoads& loads);
// R2CC_MODE as the library takes it.
int modeFromEnvironment();
// What it cost this rank that other messages run from an iteration on.
struct Adoption {
  int64_t index = 0;
  size_t connections = 0;  // that were made for it
  uint64_t choseNs = 0;    // until the agreement and the planner had it
  uint64_t connectNs = 0;
};
// `choice.ends` is not looked at.
std::string scheduleLine(int rank, const Choice& choice, const Adoption& adoption);
std::string progressLine(int rank, int64_t index, uint64_t startNs);
std::string lateLine(int rank, int64_t index, int ms, const char* phase);
std::string iterationLine(const Options& options, int64_t index, uint64_t startNs, uint64_t endNs,
                          uint64_t wrongElements);
std::string errorLine(int rank, const std::string& message, int peer, int connection);
std::string endLine(int rank, int64_t completed, uint64_t wrongElements);

// The gaps between deliveries in microseconds, the first from the iteration's start. Rounded so that they add up to the
// rounded whole: no drift over a long list. As many lines as it takes to stay below kMaxLineBytes; `part` counts them.
std::vector<std::string> deliveryLines(int rank, int connection, int64_t index, uint64_t startNs,
                                       const std::vector<uint64_t>& deliveredNs);

}  // namespace r2cc::bench
