// The cluster that is simulated, and which of its links what goes from host to host takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/network/fluid.h"

namespace r2cc::sim {

/// chaos/simulate/cluster/topology.py. Ports of a NIC count together.
struct Topology {
  int hosts = 2;
  int nics = 1;
  int ports = 1;
  double rateGbit = 400;
  double nvlinkGBps = 450;
  bool rail = true;  // NIC i of a pod's hosts is at ToR i of that pod; false: all at one
  int pod = 0;       // hosts a ToR serves; 0: all
  double oversubscription = 1;
  bool spine = true;  // false: ToRs are islands
  int backups = 1;    // NICs over which what moves away from one that is gone spreads: it had so many connections

  int podOf(int host) const { return pod > 0 ? host / pod : 0; }
  int torsOfPod() const { return rail ? nics : 1; }
  int pods() const { return pod > 0 ? (hosts + pod - 1) / pod : 1; }
};

/// What is left of a host's NICs, 0 to 1 each.
using Left = std::vector<double>;

/// Which NICs a connection takes.
enum class Way : uint8_t {
  Home,      // its own, or none
  Backup,    // another one instead of one that is gone
  Balanced,  // all that both have, in proportion to what is left
  Roomy,     // the same, and connections make room for each other on NICs that only some can use
  Spread,    // its own; what that cannot carry over all the others in proportion
};

/// Shares of what goes from one host to another, by NIC and by ToR of a pod (up towards the spine, down from it).
struct Route {
  bool there = false;  // it gets there at all
  double most = 0;     // NICs' worth that it can carry; 0: as much as the two sides can
  bool plain = false;  // each side's NICs carry in proportion to what is left of them
  std::vector<double> out, in, up, down;
};

/// `homes`: shares by NIC, which sum to 1 (Balanced has none).
Route route(const Topology& topology, Way way, const std::vector<double>& homes, const Left& from, const Left& to,
            bool samePod);

}  // namespace r2cc::sim
