// How long a channel keeps NICs busy. A channel has a home NIC. Between two nodes that both have it, its messages go
// over that NIC's rail; where one of them lost it, over the rails that both still have. NCCL's own channels spread over
// these. A schedule's may take one of them each, in turn: half a connection here and there meets others' whole ones,
// and NICs' loads do not come out even.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "planner/planner.h"

namespace r2cc::planner {

class Rails {
 public:
  /// By direction, node and rail: how long that NIC is busy, in us a byte of the message.
  using Loads = std::vector<double>;

  struct Channel {
    static constexpr int kSpreads = -1;
    size_t home = 0;
    int turn = kSpreads;  // of a schedule's: which of those with this home (r2ccScheduleConnects)
  };

  explicit Rails(const std::vector<Node>& nodes) : nodes_(nodes) {
    for (const Node& node : nodes) count_ = std::max(count_, node.nics.size());
  }
  Loads none() const { return Loads(2 * nodes_.size() * count_, 0); }
  /// Adds what `load` from a to b makes of NICs.
  void add(Loads& loads, const Channel& channel, int a, int b, double load) const {
    const size_t home = channel.home;
    if (whole(a, home) && whole(b, home)) {  // nearly all: no need to look further
      loads[static_cast<size_t>(a) * count_ + home] += load / rate(a, home);
      loads[(nodes_.size() + static_cast<size_t>(b)) * count_ + home] += load / rate(b, home);
      return;
    }
    std::vector<double> over = spread(channel, a, b);
    if (std::all_of(over.begin(), over.end(), [](double part) { return part == 0; })) {
      over.assign(count_, 1);  // there is no such rail, and whatever way there is is not to be counted on
    }
    for (size_t rail = 0; rail < count_; rail++) {
      double& out = loads[static_cast<size_t>(a) * count_ + rail];
      double& in = loads[(nodes_.size() + static_cast<size_t>(b)) * count_ + rail];
      if (rate(a, rail) > 0) out += load * over[rail] / rate(a, rail);
      if (rate(b, rail) > 0) in += load * over[rail] / rate(b, rail);
    }
  }

 private:
  static constexpr double kBytesPerUs = 125;
  const Nic* nic(int node, size_t rail) const {
    const std::vector<Nic>& nics = nodes_[static_cast<size_t>(node)].nics;
    return rail < nics.size() ? &nics[rail] : nullptr;
  }
  double rate(int node, size_t rail) const {
    const Nic* found = nic(node, rail);
    return found == nullptr ? 0 : found->rateGbit * found->capacity * kBytesPerUs;
  }
  double built(int node, size_t rail) const {
    const Nic* found = nic(node, rail);
    return found == nullptr ? 0 : found->rateGbit * kBytesPerUs;
  }
  bool whole(int node, size_t rail) const {
    const Nic* found = nic(node, rail);
    return found != nullptr && found->rateGbit > 0 && found->capacity == 1;
  }
  /// One of the rails that both have, if both have them whole: where these differ, the slower ones take less of each.
  bool takesOne(int turn, int a, int b, std::vector<double>& out) const {
    std::vector<size_t> rails;
    for (size_t rail = 0; rail < count_; rail++) {
      if (rate(a, rail) <= 0 || rate(b, rail) <= 0) continue;
      if (!whole(a, rail) || !whole(b, rail)) return false;
      rails.push_back(rail);
    }
    if (rails.empty()) return false;
    out[rails[static_cast<size_t>(turn) % rails.size()]] = 1;
    return true;
  }
  /// Which part of a channel's messages from a to b goes over each rail; none where they have no rail in common.
  std::vector<double> spread(const Channel& channel, int a, int b) const {
    const size_t home = channel.home;
    std::vector<double> shared(count_), out(count_, 0);
    for (size_t rail = 0; rail < count_; rail++) shared[rail] = std::min(rate(a, rail), rate(b, rail));
    if (shared[home] <= 0 && channel.turn != Channel::kSpreads && takesOne(channel.turn, a, b, out)) return out;
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

}  // namespace r2cc::planner
