// The plan a connection should have, from the state of the paths to its peer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

/// One that carried something, where it is at home, of which communicator, and what it carried so far.
struct Carrier {
  uint64_t connection;
  Path* home;
  const void* context;
  uint64_t bytes;
};

/// The paths of those whose homes carry nothing and who go whole over one other each, by turns. They are as many as go
/// round: what is left over is spread. All flows on a NIC then have the same to carry, and end together. Between such
/// that have all and such that have a part, a peer that is ahead fills the wire with what the other end does not wait
/// for yet. Where the survivors would not carry the same parts, nobody goes whole. Another communicator's
/// go round by themselves, and so do those that carried less, as an algorithm's that is seldom chosen.
std::map<uint64_t, Path*> wholeByTurns(const Peer& peer, const std::vector<Carrier>& carriers,
                                       const std::vector<double>& demandOfNic, const Distance& distance);

/// Of a schedule's connection whose home carries nothing: all of it over one other path, by its turn. It is one of
/// those on rails (Peer::onRail), as the planner counts (planner/cost/rails.h). Empty where home is no such path or
/// carries something, where one of the others is not whole, and for a turn below 0.
std::vector<Share> shareInTurn(const Peer& peer, Path* home, int turn);

/// True when both give every path the same part.
bool sameShares(const std::vector<Share>& a, const std::vector<Share>& b);

}  // namespace r2cc
