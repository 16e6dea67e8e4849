#include "planner/shapes/cycles.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "planner/shapes/game.h"

namespace r2cc::planner {
namespace {

constexpr int kTries = 64;  // orders drawn for each cycle; most of them are good for many nodes
constexpr int kHalvings = 10;
constexpr double kNoLonger = 1 + 1e-9;
constexpr double kSparing = 0.9;
constexpr double kLeastShare = 0.01;
constexpr size_t kMostSearched = 64;
constexpr size_t kMostTrials = 300;  // times that shares are computed to better a choice of cuts

/// Not std::shuffle: it gives other orders with another standard library, and all ranks must have the same.
std::vector<int> drawn(int nodes, uint64_t& state) {
  std::vector<int> order(static_cast<size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size() - 1; i > 1; i--) {  // node 0 stays first: a cycle has no beginning
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(order[i], order[1 + (state >> 33) % i]);
  }
  return order;
}

/// How often nodes are neighbours. By node and not by pair: cycles are few, nodes may be thousands.
class Neighbours {
 public:
  explicit Neighbours(size_t nodes) : higher_(nodes) {}

  /// Of the cycle's pairs, all times that they have met. Less is better.
  int met(const std::vector<int>& cycle) const {
    int times = 0;
    for (size_t i = 0; i < cycle.size(); i++) {
      const auto [low, high] = pair(cycle, i);
      const std::vector<int>& others = higher_[static_cast<size_t>(low)];
      times += static_cast<int>(std::count(others.begin(), others.end(), high));
    }
    return times;
  }
  void add(const std::vector<int>& cycle) {
    for (size_t i = 0; i < cycle.size(); i++) {
      const auto [low, high] = pair(cycle, i);
      higher_[static_cast<size_t>(low)].push_back(high);
    }
  }

 private:
  static std::pair<int, int> pair(const std::vector<int>& cycle, size_t i) {
    return std::minmax({cycle[i], cycle[(i + 1) % cycle.size()]});
  }
  std::vector<std::vector<int>> higher_;  // by node: its neighbours of a higher number, each as often as they have met
};

struct Search {
  const std::vector<std::vector<int>>& cycles;
  const std::vector<double>& bandwidths;
  double ringLoad;
  bool ring;  // one beside the chains comes into question

  int tailOf(size_t cycle, size_t head) const {
    const std::vector<int>& nodes = cycles[cycle];
    return nodes[(head + nodes.size() - 1) % nodes.size()];
  }

  /// `haste`: what part of their bandwidth whole nodes are taken to have.
  Mix shares(const std::vector<size_t>& heads, double haste = 1) const {
    const double whole = *std::max_element(bandwidths.begin(), bandwidths.end());
    const size_t ways = heads.size() + (ring ? 1 : 0);
    std::vector<std::vector<double>> cost(bandwidths.size(), std::vector<double>(ways, 2));
    for (size_t j = 0; j < heads.size(); j++) {
      cost[static_cast<size_t>(cycles[j][heads[j]])][j] = cost[static_cast<size_t>(tailOf(j, heads[j]))][j] = 1;
    }
    for (size_t node = 0; node < bandwidths.size(); node++) {
      if (ring) cost[node].back() = ringLoad;
      const double bandwidth = bandwidths[node] * (bandwidths[node] < whole ? 1 : haste);
      for (double& value : cost[node]) value /= bandwidth;
    }
    Mix mix = leastMaximum(cost);
    mix.shares.resize(heads.size() + 1, 0);
    return mix;
  }

  /// The same share for each cut at the slowest node.
  Mix evenly(const std::vector<size_t>& heads) const {
    const auto slowest = static_cast<int>(std::min_element(bandwidths.begin(), bandwidths.end()) - bandwidths.begin());
    std::vector<size_t> cuts;
    for (size_t j = 0; j < heads.size(); j++) {
      if (cycles[j][heads[j]] == slowest || tailOf(j, heads[j]) == slowest) cuts.push_back(j);
    }
    Mix mix{std::vector<double>(heads.size() + 1, 0), 0};
    std::vector<double> load(bandwidths.size(), 2);
    for (const size_t j : cuts) {
      mix.shares[j] = 1 / static_cast<double>(cuts.size());
      load[static_cast<size_t>(cycles[j][heads[j]])] -= mix.shares[j];
      load[static_cast<size_t>(tailOf(j, heads[j]))] -= mix.shares[j];
    }
    for (size_t i = 0; i < load.size(); i++) mix.value = std::max(mix.value, load[i] / bandwidths[i]);
    return mix;
  }

  /// Of all shares that take no longer, those that leave whole nodes the most to spare: what one
  /// of them lacks for a moment then delays nobody.
  Mix relaxed(const std::vector<size_t>& heads, const Mix& best) const {
    Mix mix = best;
    Mix even = evenly(heads);
    if (even.value <= best.value * kNoLonger) return even;
    double low = 0.5, high = 1;
    for (int i = 0; i < kHalvings; i++) {
      const double haste = (low + high) / 2;
      const Mix other = shares(heads, haste);
      const bool fits = other.value <= best.value * kNoLonger;
      if (fits) mix = {other.shares, best.value};
      (fits ? high : low) = haste;
    }
    return mix;
  }

  /// Slow nodes are ends most, the others as much as is left: as much as each would need to carry no more than its part
  /// of all that is sent.
  /// `first`: the cycle that chooses first; `late`: of equally good cuts the last. Which is best depends on the case.
  std::vector<size_t> greedy(size_t first, bool late) const {
    const double all = std::accumulate(bandwidths.begin(), bandwidths.end(), 0.0);
    const double time = 2 * (static_cast<double>(bandwidths.size()) - 1) / all;
    std::vector<double> wanted;
    wanted.reserve(bandwidths.size());
    for (const double bandwidth : bandwidths) wanted.push_back(2 - time * bandwidth);
    std::vector<size_t> heads(cycles.size());
    for (size_t i = 0; i < cycles.size(); i++) {
      const size_t j = (first + i) % cycles.size();
      size_t best = 0;
      const auto worth = [&](size_t head) {
        return wanted[static_cast<size_t>(cycles[j][head])] + wanted[static_cast<size_t>(tailOf(j, head))];
      };
      for (size_t head = 1; head < cycles[j].size(); head++) {
        if (worth(head) > worth(best) + (late ? -1e-9 : 1e-9)) best = head;
      }
      heads[j] = best;
      const double share = 1.0 / static_cast<double>(cycles.size());
      wanted[static_cast<size_t>(cycles[j][best])] -= share;
      wanted[static_cast<size_t>(tailOf(j, best))] -= share;
    }
    return heads;
  }

  /// The best of what the greedy choices come to.
  std::vector<size_t> chosen() const {
    std::vector<size_t> best = greedy(0, false);
    double least = shares(best, kSparing).value;
    const size_t starts = bandwidths.size() <= kMostSearched ? cycles.size() : 1;
    for (size_t i = 1; i < 2 * starts; i++) {
      const std::vector<size_t> other = greedy(i / 2, i % 2 == 1);
      const double value = shares(other, kSparing).value;
      if (value >= least * (1 - 1e-9)) continue;
      least = value;
      best = other;
    }
    return best;
  }

  /// One cut at a time is moved while that helps.
  std::vector<size_t> bettered(std::vector<size_t> heads, double haste) const {
    if (bandwidths.size() > kMostSearched) return heads;  // so many nodes differ little, whichever are ends
    double least = shares(heads, haste).value;
    size_t trials = 0;
    for (bool better = true; better && trials < kMostTrials;) {
      better = false;
      for (size_t j = 0; j < cycles.size(); j++) {
        for (size_t head = 0; head < cycles[j].size() && trials < kMostTrials; head++, trials++) {
          const size_t before = std::exchange(heads[j], head);
          const double value = shares(heads, haste).value;
          const bool helps = value < least * (1 - 1e-9);
          if (helps)
            least = value;
          else
            heads[j] = before;
          better |= helps;
        }
      }
    }
    return heads;
  }
};

Cuts cutsOf(const Search& search) {
  // First as if whole nodes were slower than they are, so that cuts which spare them are found among equals.
  const std::vector<size_t> heads = search.bettered(search.bettered(search.chosen(), kSparing), 1);
  const Mix best = search.relaxed(heads, search.shares(heads));
  double kept = 0;
  for (const double share : best.shares) kept += share >= kLeastShare ? share : 0;
  Cuts found;
  found.time = best.value / kept;
  if (best.shares.back() >= kLeastShare) found.ringShare = best.shares.back() / kept;
  for (size_t j = 0; j < heads.size(); j++) {
    if (best.shares[j] >= kLeastShare) found.cuts.push_back({j, heads[j], best.shares[j] / kept});
  }
  return found;
}

}  // namespace

std::vector<std::vector<int>> cycles(int nodes, int count) {
  std::vector<std::vector<int>> all;
  Neighbours neighbours(static_cast<size_t>(nodes));
  uint64_t state = 1;
  while (all.size() < static_cast<size_t>(count)) {
    std::vector<int> best(static_cast<size_t>(nodes));
    std::iota(best.begin(), best.end(), 0);
    for (int i = 0; i < kTries && !all.empty(); i++) {
      const std::vector<int> other = drawn(nodes, state);
      if (i == 0 || neighbours.met(other) < neighbours.met(best)) best = other;
    }
    neighbours.add(best);
    all.push_back(best);
  }
  return all;
}

int turnOf(size_t cycle, size_t which, const std::vector<int>& homes) {
  const auto own = homes.begin() + static_cast<std::ptrdiff_t>(which);
  const auto each = std::count(homes.begin(), homes.end(), *own);
  return static_cast<int>(static_cast<std::ptrdiff_t>(cycle) * each + std::count(homes.begin(), own, *own));
}

Cuts cutCycles(const std::vector<std::vector<int>>& cycles, const std::vector<double>& bandwidths) {
  return cutsOf({cycles, bandwidths, 0, false});
}

Cuts cutCycles(const std::vector<std::vector<int>>& cycles, const std::vector<double>& bandwidths, double ringLoad) {
  const Cuts chains = cutCycles(cycles, bandwidths);
  const Cuts both = cutsOf({cycles, bandwidths, ringLoad, true});
  return chains.time <= both.time * kWorthARing ? chains : both;
}

}  // namespace r2cc::planner
