// A NIC that loses bandwidth in the middle of a collective, and what an arm makes of it.
#pragma once

#include "sim/solve.h"

namespace r2cc::sim {

struct Fault {
  int host = 0;
  int nic = 0;
  double atShare = 0.5;  // of the time that the collective takes without it
  double factor = 0;     // what is left of what the NIC had
  double durationUs = kNever;
  bool cut = true;  // connections break, even if something is left (a port of two); false: it only becomes slower
};

/// How long things take. chaos/simulate/parameters/ has the values and where they are from.
struct Recovery {
  double detectUs = 0;     // from the cut until one end knows
  double handshakeUs = 0;  // until both have agreed on what arrived
  double replayBytes = 0;  // that a connection sends again
  double failbackUs = 0;   // from the link's return until its load is back on it
  double slowUs = 0;       // until a NIC that became slower is known to be, and relieved
  double resumeUs = 0;     // from the return until a connection that waited goes on
  double toleranceUs = 0;  // what waits for longer than that is dead
  double failoverUs = 0;   // upstream's, until its retries are over
  double excludeUs = 0;    // until a failed worker is known to be
  double replanUs = 0;     // until the others go on without it
};

struct HitAnswer {
  double timeUs = 0;     // where it does not complete: until the job ends
  double healthyUs = 0;  // without this fault
  double stallUs = 0;    // the longest that a stream stood still
  double replayBytes = 0;
  bool completed = false;
  std::string schedule;
};

HitAnswer hit(const Question& question, const State& state, const Fault& fault, const Recovery& recovery);

}  // namespace r2cc::sim
