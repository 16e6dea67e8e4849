// The plan a connection should have, from the state of the paths to its peer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "paths/path.h"

namespace r2cc {

class Peer;

struct Share {
  Path* path;
  uint8_t weight;
};

/// The class of distance between two local NICs, by index; 0 is nearest.
using Distance = std::function<int(size_t, size_t)>;

/// Mode 2: home alone while it is well; what it cannot carry over the survivors. Empty when no data path is up.
/// `demand(path)`: connections at home on that path.
std::vector<Share> balancedShares(const Peer& peer, Path* home, const std::vector<double>& demandOfNic,
                                  const Distance& distance);

/// Of a schedule's connection whose home carries nothing: all of it over one other path, by its turn. It is one of
/// those on rails (Peer::onRail), as the planner counts (planner/cost/rails.h). Empty where home is no such path or
/// carries something, where one of the others is not whole, and for a turn below 0.
std::vector<Share> shareInTurn(const Peer& peer, Path* home, int turn);

/// True when both give every path the same part.
bool sameShares(const std::vector<Share>& a, const std::vector<Share>& b);

}  // namespace r2cc
