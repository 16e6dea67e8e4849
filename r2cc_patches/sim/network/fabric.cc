#include "sim/network/fabric.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace r2cc::sim {
namespace {

constexpr double kSameShare = 1e-12;

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Empty: they sum to nothing.
std::vector<double> inProportion(std::vector<double> values) {
  const double whole = sum(values);
  if (whole <= 0) return {};
  for (double& value : values) value /= whole;
  return values;
}

class Routing {
 public:
  Routing(const Topology& topology, const Left& from, const Left& to)
      : count_(topology.nics),
        backups_(topology.backups),
        from_(from),
        to_(to),
        crosses_(topology.spine || !topology.rail) {
    for (int nic = 0; nic < count_; nic++) common_.push_back(std::min(from[at(nic)], to[at(nic)]));
  }

  /// Both empty: there is no way.
  std::pair<std::vector<double>, std::vector<double>> of(Way way, const std::vector<double>& homes) const {
    if (way == Way::Roomy && sum(common_) <= 0 && !crosses_) return {};
    if (way == Way::Roomy || (way == Way::Balanced && crosses_)) return both(inProportion(from_), inProportion(to_));
    if (way == Way::Balanced) return both(inProportion(common_), inProportion(common_));
    std::vector<double> out(from_.size());
    std::vector<double> in(to_.size());
    for (int home = 0; home < count_; home++) {
      const double share = homes[at(home)];
      if (share > 0 && !add(way, home, share, out, in)) return {};
    }
    return {out, in};
  }

  /// What connections that make room for each other can exchange at most, where that is less than what either has.
  double most() const {
    const double either = std::min(sum(from_), sum(to_));
    return crosses_ || sum(common_) >= either * (1 - kSameShare) ? 0 : sum(common_);
  }

 private:
  static size_t at(int nic) { return static_cast<size_t>(nic); }

  static std::pair<std::vector<double>, std::vector<double>> both(std::vector<double> out, std::vector<double> in) {
    if (out.empty() || in.empty()) return {};
    return {std::move(out), std::move(in)};
  }

  bool add(Way way, int home, double share, std::vector<double>& out, std::vector<double>& in) const {
    if (way == Way::Spread) {
      if (!crosses_) return spread(common_, home, share, out) && spread(common_, home, share, in);
      return spread(from_, home, share, out) && spread(to_, home, share, in);
    }
    const auto common = [&](int nic) { return common_[at(nic)] > 0; };
    if (way == Way::Home && !common(home)) return false;
    const auto mine = [&](int nic) { return crosses_ ? from_[at(nic)] > 0 : common(nic); };
    const auto theirs = [&](int nic) { return crosses_ ? to_[at(nic)] > 0 : common(nic); };
    return backUp(home, share, mine, out) && backUp(home, share, theirs, in);
  }

  /// At home, or else over the next NICs that work, as many as there are connections to move.
  template <typename Works>
  bool backUp(int home, double share, const Works& works, std::vector<double>& out) const {
    std::vector<int> taken;
    for (int step = 0; step < count_ && static_cast<int>(taken.size()) < backups_; step++) {
      const int nic = (home + step) % count_;
      if (works(nic)) taken.push_back(nic);
      if (step == 0 && !taken.empty()) break;
    }
    for (const int nic : taken) out[at(nic)] += share / static_cast<double>(taken.size());
    return !taken.empty();
  }

  bool spread(const std::vector<double>& left, int home, double share, std::vector<double>& out) const {
    const double others = sum(left) - left[at(home)];
    if (sum(left) <= 0) return false;
    const double kept = others <= 0 ? 1 : left[at(home)];
    for (int nic = 0; nic < count_; nic++) {
      out[at(nic)] += share * (nic == home ? kept : others > 0 ? (1 - kept) * left[at(nic)] / others : 0);
    }
    return true;
  }

  const int count_;
  const int backups_;
  const Left& from_;
  const Left& to_;
  const bool crosses_;  // from a NIC of any place to one of any other
  std::vector<double> common_;
};

bool inProportionTo(const std::vector<double>& shares, const Left& left) {
  const double whole = sum(left);
  for (size_t i = 0; i < left.size(); i++) {
    if (std::abs(shares[i] - left[i] / whole) > kSameShare) return false;
  }
  return true;
}

/// What does not stay below a ToR.
void overSpine(const Topology& topology, bool samePod, Route& route) {
  const auto tors = static_cast<size_t>(topology.torsOfPod());
  route.up.assign(tors, 0);
  route.down.assign(tors, 0);
  if (!topology.spine || (samePod && !topology.rail)) return;
  for (size_t nic = 0; nic < route.out.size(); nic++) {
    const size_t tor = topology.rail ? nic : 0;
    const double stays = samePod ? std::min(route.out[nic], route.in[nic]) : 0;
    if (route.out[nic] - stays > kSameShare) route.up[tor] += route.out[nic] - stays;
    if (route.in[nic] - stays > kSameShare) route.down[tor] += route.in[nic] - stays;
  }
}

}  // namespace

Route route(const Topology& topology, Way way, const std::vector<double>& homes, const Left& from, const Left& to,
            bool samePod) {
  Route out;
  if (!samePod && !topology.spine) return out;
  const Routing routing(topology, from, to);
  std::tie(out.out, out.in) = routing.of(way, homes);
  out.there = !out.out.empty();
  if (!out.there) return out;
  if (way == Way::Roomy) out.most = routing.most();
  out.plain = inProportionTo(out.out, from) && inProportionTo(out.in, to);
  overSpine(topology, samePod, out);
  return out;
}

}  // namespace r2cc::sim
