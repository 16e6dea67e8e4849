// Every cycle can lie on several channels, each with a home NIC of its own: cut somewhere, a chain; whole, a ring in
// that order; or unused. On all homes alike, whole nodes would carry more on the rails that a degraded node still has
// than on the one it lost (rails.h). Which channels are used, and as what, evens that out. Their connections carry the
// same each: those that meet on a NIC get the same rate, and one with more would be left over at the end.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/planner.h"
#include "planner/shapes/cycles.h"

namespace r2cc::planner {

struct PlacedLine {
  size_t cycle = 0;
  size_t head = 0;         // as Cut's
  bool whole = false;      // a ring; `head` is 0
  std::vector<int> homes;  // places in `homes`; none twice among all lines of a cycle
  double share = 0;        // of the message
};

struct Placing {
  std::vector<PlacedLine> lines;
  double usPerByte = 0;  // of the busiest NIC
};

/// Cuts alone, or some cycles whole beside them.
enum class Lines : uint8_t { Cuts, CutsAndRings };

/// Where a channel's home is gone: over all rails that are left, or each over one of them, in turn.
enum class Instead : uint8_t { All, InTurn };

/// Begins with `cuts` on all homes and makes that better. `ringLoad` as cutCycles', of a ring along `ring` or a cycle.
Placing placed(const std::vector<Node>& nodes, const std::vector<std::vector<int>>& cycles,
               const std::vector<int>& homes, const Cuts& cuts, const std::vector<int>& ring, double ringLoad,
               Lines lines, Instead instead);

/// The busiest NIC's time, in us a byte, where these cycles, `count` of them from `first` on, are rings on all homes.
double ringsUsPerByte(const std::vector<Node>& nodes, const std::vector<std::vector<int>>& cycles, size_t first,
                      size_t count, const std::vector<int>& homes, double ringLoad);

}  // namespace r2cc::planner
