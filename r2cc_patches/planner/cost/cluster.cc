#include "planner/cost/cluster.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace r2cc::planner {
namespace {

constexpr double kBytesPerUsOfGbit = 125;
constexpr double kSame = 1e-9;        // bandwidths that differ by less are equal
constexpr size_t kMostCached = 1024;  // classes

double leftOf(const Nic& nic) { return nic.rateGbit * nic.capacity * kBytesPerUsOfGbit; }

/// What is left of each node's NICs, by plane where the request has planes, else by rail; no more of each than all
/// other nodes together have there.
class Reached {
 public:
  explicit Reached(const Request& request) {
    for (const Node& node : request.nodes) {
      lanes_.push_back(allOf(node, request.planes));
      all_.resize(std::max(all_.size(), lanes_.back().size()), 0);
      for (size_t lane = 0; lane < lanes_.back().size(); lane++) all_[lane] += lanes_.back()[lane];
    }
  }

  std::vector<double> lanesOf(size_t node) const {
    std::vector<double> out = lanes_[node];
    if (lanes_.size() == 1) return out;
    for (size_t lane = 0; lane < out.size(); lane++) {
      if (const double others = all_[lane] - out[lane]; others < out[lane] * (1 - kSame))
        out[lane] = othersOf(node, lane);
    }
    return out;
  }

 private:
  static std::vector<double> allOf(const Node& node, int planes) {
    const size_t count = planes > 0 ? std::min(static_cast<size_t>(planes), node.nics.size()) : node.nics.size();
    std::vector<double> out(count, 0);
    for (size_t nic = 0; nic < node.nics.size(); nic++) out[nic % count] += leftOf(node.nics[nic]);
    return out;
  }

  /// Summed up, as a difference would leave a little of nothing.
  double othersOf(size_t node, size_t lane) const {
    double sum = 0;
    for (size_t other = 0; other < lanes_.size(); other++) {
      if (other != node && lane < lanes_[other].size()) sum += lanes_[other][lane];
    }
    return sum;
  }

  std::vector<std::vector<double>> lanes_;
  std::vector<double> all_;  // of all nodes, by lane
};

}  // namespace

Cluster::Cluster(const Request& request) : request_(request) {
  std::map<std::vector<double>, size_t> classes;
  const Reached reached(request);
  for (size_t node = 0; node < request.nodes.size(); node++) {
    const std::vector<double> each = reached.lanesOf(node);
    double whole = 0, left = 0, slowestNic = 0;
    for (const Nic& nic : request.nodes[node].nics) {
      whole += nic.rateGbit * kBytesPerUsOfGbit;
      left += leftOf(nic);
      if (leftOf(nic) > 0) slowestNic = slowestNic > 0 ? std::min(slowestNic, leftOf(nic)) : leftOf(nic);
    }
    double sum = std::accumulate(each.begin(), each.end(), 0.0);
    if (sum <= 0) sum = slowestNic;
    const bool first = bandwidth_.empty();
    fastest_ = first ? sum : std::max(fastest_, sum);
    slowest_ = first ? sum : std::min(slowest_, sum);
    healthySlowest_ = first ? whole : std::min(healthySlowest_, whole);
    total_ += sum;
    ranks_ += static_cast<int>(request.nodes[node].ranks.size());
    const auto [known, added] = classes.emplace(each, lanes_.size());
    if (added) lanes_.push_back(each);
    class_.push_back(known->second);
    bandwidth_.push_back(sum);
    left_.push_back(left);
    slowestNic_.push_back(slowestNic);
  }
  if (lanes_.size() <= kMostCached) between_.assign(lanes_.size() * lanes_.size(), -1);
  for (int i = 0; i < nodes(); i++) {
    if (bandwidth(i) < fastest_ * (1 - kSame)) degraded_.push_back(i);
  }
  std::stable_sort(degraded_.begin(), degraded_.end(), [&](int a, int b) { return bandwidth(a) < bandwidth(b); });
}

double Cluster::between(int a, int b) const {
  if (between_.empty()) return shared(a, b);
  double& known = between_[class_[static_cast<size_t>(a)] * lanes_.size() + class_[static_cast<size_t>(b)]];
  if (known < 0) known = shared(a, b);
  return known;
}

double Cluster::exchange(int a, int b) const {
  const double shared = between(a, b);
  return shared > 0 ? shared : std::min(slowestNic_[static_cast<size_t>(a)], slowestNic_[static_cast<size_t>(b)]);
}

double Cluster::shared(int a, int b) const {
  const std::vector<double>& mine = lanes(a);
  const std::vector<double>& theirs = lanes(b);
  double sum = 0;
  for (size_t rail = 0; rail < std::min(mine.size(), theirs.size()); rail++) sum += std::min(mine[rail], theirs[rail]);
  return sum;
}

bool Cluster::uneven(int a, int b) const {
  if (class_[static_cast<size_t>(a)] == class_[static_cast<size_t>(b)]) return false;
  const std::vector<double>& mine = lanes(a);
  const std::vector<double>& theirs = lanes(b);
  if (mine.size() != theirs.size()) return true;
  for (size_t rail = 0; rail < mine.size(); rail++) {
    if (std::abs(mine[rail] * bandwidth(b) - theirs[rail] * bandwidth(a)) > kSame * bandwidth(a) * bandwidth(b))
      return true;
  }
  return false;
}

bool Cluster::alike() const {
  const double most = mostLeft() * (1 - kSame);
  for (int node = 0; node < nodes(); node++) {
    if (bandwidth(node) < most || uneven(0, node)) return false;
  }
  return true;
}

bool Cluster::picky(int node) const {
  const std::vector<Nic>& nics = request_.nodes[static_cast<size_t>(node)].nics;
  if (request_.planes == 1) return false;
  return std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) { return nic.capacity != nics.front().capacity; });
}

int Cluster::pickyNodes() const {
  int count = 0;
  for (int node = 0; node < nodes(); node++) count += picky(node) ? 1 : 0;
  return count;
}

bool Cluster::getAlong(int a, int b) const {
  return between(a, b) >= std::min(bandwidth(a), bandwidth(b)) * (1 - kSame);
}

std::vector<int> Cluster::ranksOf(const std::vector<int>& order) const {
  std::vector<int> out;
  for (const int node : order) out.insert(out.end(), ranksOf(node).begin(), ranksOf(node).end());
  return out;
}

}  // namespace r2cc::planner
