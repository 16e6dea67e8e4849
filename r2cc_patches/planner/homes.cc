#include "homes.h"

#include <algorithm>
#include <numeric>

#include "formulas.h"

namespace r2cc::planner {
namespace {

constexpr size_t kMostPlaced = 32;  // one of more carries so little of the whole that placing gains nothing
constexpr int kMostClimbs = 8;

using Loads = std::vector<double>;  // by direction, node and rail: how long that NIC is busy

class Rails {
 public:
  explicit Rails(const std::vector<Node>& nodes) : nodes_(nodes) {
    for (const Node& node : nodes) count_ = std::max(count_, node.nics.size());
  }
  size_t rows() const { return 2 * nodes_.size() * count_; }

  /// Adds what `load` from a to b makes of NICs, for a channel at home on this rail.
  void add(Loads& loads, size_t home, int a, int b, double load) const {
    const std::vector<double> over = spread(home, a, b);
    for (size_t rail = 0; rail < count_; rail++) {
      if (over[rail] <= 0) continue;
      loads[static_cast<size_t>(a) * count_ + rail] += load * over[rail] / rate(a, rail);
      loads[(nodes_.size() + static_cast<size_t>(b)) * count_ + rail] += load * over[rail] / rate(b, rail);
    }
  }

 private:
  const Nic* nic(int node, size_t rail) const {
    const std::vector<Nic>& nics = nodes_[static_cast<size_t>(node)].nics;
    return rail < nics.size() ? &nics[rail] : nullptr;
  }
  double rate(int node, size_t rail) const {
    const Nic* found = nic(node, rail);
    return found == nullptr ? 0 : found->rateGbit * found->capacity;
  }
  double built(int node, size_t rail) const { return nic(node, rail) == nullptr ? 0 : nic(node, rail)->rateGbit; }

  /// Which part of a channel's messages from a to b goes over each rail; none where they have no rail in common.
  std::vector<double> spread(size_t home, int a, int b) const {
    std::vector<double> shared(count_), out(count_, 0);
    for (size_t rail = 0; rail < count_; rail++) shared[rail] = std::min(rate(a, rail), rate(b, rail));
    const double whole = std::min(built(a, home), built(b, home));
    const double others = std::accumulate(shared.begin(), shared.end(), 0.0) - shared[home];
    const double kept = others <= 0 ? 1 : whole > 0 ? std::min(1.0, shared[home] / whole) : 0;
    for (size_t rail = 0; rail < count_; rail++) {
      if (shared[rail] > 0) out[rail] = rail == home ? kept : (1 - kept) * shared[rail] / others;
    }
    return out;
  }

  const std::vector<Node>& nodes_;
  size_t count_ = 0;
};

/// One chain on one of its homes, all of the message.
struct Channel {
  size_t part;
  int which;
  Loads loads;
};

class Placing {
 public:
  Placing(const std::vector<Node>& nodes, const std::vector<PlacedPart>& parts, int ranks,
          const std::vector<int>& homes)
      : rails_(nodes), rings_(rails_.rows(), 0) {
    for (size_t i = 0; i < parts.size(); i++) {
      const PlacedPart& part = parts[i];
      if (!part.ring) chains_ += part.share;
      for (size_t which = 0; which < homes.size(); which++) {
        Loads alone(part.ring ? 0 : rails_.rows(), 0);
        const double load = part.ring ? part.share * ringLoad(ranks) / static_cast<double>(homes.size()) : 1;
        run(part, static_cast<size_t>(homes[which]), load, part.ring ? rings_ : alone);
        if (!part.ring) channels_.push_back({i, static_cast<int>(which), std::move(alone)});
      }
    }
    used_.assign(channels_.size(), true);
  }

  /// From all channels, or from those where one chain is left out of all homes but one: channels are left out, taken
  /// back or exchanged, one or two at a time, while that helps.
  void improve() {
    std::vector<bool> best = used_;
    double least = busiest();
    for (const Channel& at : channels_) {
      for (size_t i = 0; i < channels_.size(); i++) {
        used_[i] = channels_[i].part != at.part || channels_[i].which == at.which;
      }
      if (const double value = busiest(); value < least) least = value, best = used_;
    }
    used_ = best;
    climb();
  }

  std::vector<std::vector<int>> result(size_t parts) const {
    std::vector<std::vector<int>> out(parts);
    for (size_t i = 0; i < channels_.size(); i++) {
      if (used_[i]) out[channels_[i].part].push_back(channels_[i].which);
    }
    return out;
  }

 private:
  void run(const PlacedPart& part, size_t home, double load, Loads& into) const {
    const size_t count = part.nodes.size();
    for (size_t i = 0; i + (part.ring ? 0 : 1) < count; i++) {
      const int a = part.nodes[i], b = part.nodes[(i + 1) % count];
      rails_.add(into, home, a, b, load);
      if (!part.ring) rails_.add(into, home, b, a, load);
    }
  }
  void climb() {
    double least = busiest();
    for (int round = 0; round < kMostClimbs; round++) {
      size_t a = 0, b = 0;
      double best = least;
      for (size_t i = 0; i < used_.size(); i++) {
        for (size_t j = i; j < used_.size(); j++) {
          flip(i, j);
          const double value = busiest();
          flip(i, j);
          if (value < best * (1 - 1e-9)) best = value, a = i, b = j;
        }
      }
      if (best >= least) return;
      flip(a, b);
      least = best;
    }
  }

  void flip(size_t i, size_t j) {
    used_[i] = !used_[i];
    if (i != j) used_[j] = !used_[j];
  }
  double busiest() const {
    Loads sum(rails_.rows(), 0);
    const auto count = static_cast<double>(std::count(used_.begin(), used_.end(), true));
    if (count == 0) return 1e300;
    for (size_t i = 0; i < channels_.size(); i++) {
      if (!used_[i]) continue;
      for (size_t row = 0; row < sum.size(); row++) sum[row] += channels_[i].loads[row];
    }
    double most = 0;
    for (size_t row = 0; row < sum.size(); row++) most = std::max(most, rings_[row] + chains_ * sum[row] / count);
    return most;
  }

  const Rails rails_;
  Loads rings_;
  double chains_ = 0;  // their share of the message
  std::vector<Channel> channels_;
  std::vector<bool> used_;
};

}  // namespace

std::vector<std::vector<int>> placed(const std::vector<Node>& nodes, const std::vector<PlacedPart>& parts, int ranks,
                                     const std::vector<int>& homes) {
  Placing placing(nodes, parts, ranks, homes);
  if (nodes.size() <= kMostPlaced) placing.improve();
  return placing.result(parts.size());
}

}  // namespace r2cc::planner
