#include "paths/wanted.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <numeric>

#include "paths/balance.h"
#include "paths/peer.h"

namespace r2cc {
namespace {

/// Ends that a path does not share with home. On rails both change; where all NICs see each other, only the lost one.
int detour(const Path& path, const Path& home) {
  return static_cast<int>(path.local != home.local) + static_cast<int>(path.remote != home.remote);
}

/// What speaks against a path: that its NICs do not face each other, that nobody knows whether they can talk, that it
/// may fail with home, its detour.
int against(const Peer& peer, const Path& path, const Path& home) {
  return (path.byRouter ? 16 : 0) + (path.mute(runNs()) ? 8 : 0) + (peer.kin(path, home) ? 4 : 0) + detour(path, home);
}

/// Home first, then those paths that the least speaks against.
std::vector<Path*> candidates(const Peer& peer, Path* home) {
  int least = INT_MAX;
  const auto usable = [&](const Path& path) { return path.data && path.carriesData() && &path != home; };
  for (const auto& path : peer.paths()) {
    if (usable(*path)) least = std::min(least, against(peer, *path, *home));
  }
  std::vector<Path*> out{home};
  for (const auto& path : peer.paths()) {
    if (usable(*path) && against(peer, *path, *home) == least) out.push_back(path.get());
  }
  return out;
}

double part(const std::vector<Share>& shares, const Path* path) {
  double sum = 0;
  double own = 0;
  for (const Share& s : shares) {
    sum += s.weight;
    if (s.path == path) own += s.weight;
  }
  return sum > 0 ? own / sum : 0;
}

/// Channels of one communicator carry the same, but for a rest: under FSDP2 the least had 8 % less than the others.
bool alike(uint64_t a, uint64_t b) { return std::max(a, b) - std::min(a, b) <= std::max(a, b) / 4; }

}  // namespace

std::vector<Share> balancedShares(const Peer& peer, Path* home, const std::vector<double>& demandOfNic,
                                  const Distance& distance) {
  const std::vector<Path*> paths = candidates(peer, home);
  std::vector<Candidate> inputs;
  inputs.reserve(paths.size());
  for (const Path* path : paths) {
    inputs.push_back({path->carriesData() ? cautious(path->capacity) : 0.0, demandOfNic[path->local],
                      distance ? distance(home->local, path->local) : 0});
  }
  const std::vector<uint8_t> parts = weights(shares(inputs, 0));
  std::vector<Share> out;
  for (size_t i = 0; i < paths.size(); i++) {
    if (parts[i] > 0) out.push_back({paths[i], parts[i]});
  }
  return out;
}

std::map<uint64_t, Path*> wholeByTurns(const Peer& peer, const std::vector<Carrier>& carriers,
                                       const std::vector<double>& demandOfNic, const Distance& distance) {
  struct Group {
    std::vector<Share> spread;
    Carrier first;
    std::vector<uint64_t> members;
  };
  std::map<const Path*, std::vector<Share>> spreads;
  std::vector<Group> groups;
  for (const Carrier& carrier : carriers) {
    if (carrier.home->carriesData() && carrier.home->capacity > 0) continue;
    const auto [found, added] = spreads.try_emplace(carrier.home);
    if (added) found->second = balancedShares(peer, carrier.home, demandOfNic, distance);
    const std::vector<Share>& spread = found->second;
    const auto asTheFirst = [&](const Share& share) { return share.weight == spread[0].weight; };
    if (spread.size() < 2 || !std::all_of(spread.begin(), spread.end(), asTheFirst)) continue;
    const auto same = [&](const Group& group) {
      return group.first.context == carrier.context && alike(group.first.bytes, carrier.bytes) &&
             sameShares(group.spread, spread);
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(group, {spread, carrier, {}});
    group->members.push_back(carrier.connection);
  }
  std::map<uint64_t, Path*> out;
  for (const Group& group : groups) {
    const size_t paths = group.spread.size();
    for (size_t i = 0; i < group.members.size() / paths * paths; i++) {
      out[group.members[i]] = group.spread[i % paths].path;
    }
  }
  return out;
}

std::vector<Share> shareInTurn(const Peer& peer, Path* home, int turn) {
  if (turn < 0 || !peer.onRail(*home) || (home->carriesData() && home->capacity > 0)) return {};
  std::vector<Path*> rails;
  for (const auto& path : peer.paths()) {
    const bool usable = path->data && path->carriesData() && !path->byRouter && !path->mute(runNs());
    if (!usable || !peer.onRail(*path) || path.get() == home) continue;
    if (path->capacity < 1.0) return {};
    rails.push_back(path.get());
  }
  if (rails.empty()) return {};
  std::sort(rails.begin(), rails.end(), [](const Path* a, const Path* b) { return a->local < b->local; });
  return {{rails[static_cast<size_t>(turn) % rails.size()], 1}};
}

bool sameShares(const std::vector<Share>& a, const std::vector<Share>& b) {
  const auto covers = [](const std::vector<Share>& x, const std::vector<Share>& y) {
    return std::all_of(x.begin(), x.end(),
                       [&](const Share& s) { return std::abs(part(x, s.path) - part(y, s.path)) < 0.01; });
  };
  return covers(a, b) && covers(b, a);
}

}  // namespace r2cc
