// The host bench's programs (../bench), message by message, in a network that is arithmetic: every NIC passes what it
// is given in the order in which it came, as the lab's queues do. Where messages wait for each other a fluid is too
// kind: phases overlap less, and whose chunks are larger gets more of a shared NIC. See
// docs/internals/simulation-model.md, Programs.
#pragma once

#include <vector>

#include "bench/programs/layout.h"
#include "sim/solve.h"

namespace r2cc::sim {

struct ProgramNet {
  int nics = 1;                    // of a host, which is a rank
  std::vector<double> bytesPerUs;  // by host and NIC
  double latencyUs = 200;          // from the wire to the program that waits, and on
  int slots = 3;                   // messages of a connection that are on their way at most
  double burstBytes = 0;           // that a NIC which was idle passes at once, each way: its token bucket
};

/// Until everything is over; kNever when it never is.
double runPrograms(const std::vector<bench::FlowPlan>& flows, const ProgramNet& net);

/// How the bench cuts and places a plan.
struct Bed {
  int flows = 2;  // connections of a part, from host to host
  int slots = 3;
  int burstBytes = 0;  // of each NIC's token bucket, which is full at the start
};

/// The question's plan on what is left, its connections placed as the bench places them, each on one NIC.
double programUs(const Question& question, const State& state, const Bed& bed);

}  // namespace r2cc::sim
