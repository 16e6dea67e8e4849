#include "cluster.h"

#include <algorithm>
#include <map>

namespace r2cc::planner {
namespace {

constexpr double kBytesPerUsOfGbit = 125;
constexpr double kSame = 1e-9;        // bandwidths that differ by less are equal
constexpr size_t kMostCached = 1024;  // classes

double leftOf(const Nic& nic) { return nic.rateGbit * nic.capacity * kBytesPerUsOfGbit; }

std::vector<double> lanes(const Node& node) {
  std::vector<double> out;
  out.reserve(node.nics.size());
  for (const Nic& nic : node.nics) out.push_back(leftOf(nic));
  return out;
}

}  // namespace

Cluster::Cluster(const Request& request) : request_(request) {
  std::map<std::vector<double>, size_t> classes;
  for (const Node& node : request.nodes) {
    const std::vector<double> each = lanes(node);
    double sum = 0;
    double whole = 0;
    for (const double lane : each) sum += lane;
    for (const Nic& nic : node.nics) whole += nic.rateGbit * kBytesPerUsOfGbit;
    const bool first = bandwidth_.empty();
    fastest_ = first ? sum : std::max(fastest_, sum);
    slowest_ = first ? sum : std::min(slowest_, sum);
    healthySlowest_ = first ? whole : std::min(healthySlowest_, whole);
    total_ += sum;
    ranks_ += static_cast<int>(node.ranks.size());
    const auto [known, added] = classes.emplace(each, example_.size());
    if (added) example_.push_back(static_cast<int>(bandwidth_.size()));
    class_.push_back(known->second);
    bandwidth_.push_back(sum);
  }
  if (example_.size() <= kMostCached) between_.assign(example_.size() * example_.size(), -1);
  for (int i = 0; i < nodes(); i++) {
    if (bandwidth(i) < fastest_ * (1 - kSame)) degraded_.push_back(i);
  }
  std::stable_sort(degraded_.begin(), degraded_.end(), [&](int a, int b) { return bandwidth(a) < bandwidth(b); });
}

double Cluster::between(int a, int b) const {
  if (between_.empty()) return shared(a, b);
  double& known = between_[class_[static_cast<size_t>(a)] * example_.size() + class_[static_cast<size_t>(b)]];
  if (known < 0) known = shared(a, b);
  return known;
}

double Cluster::shared(int a, int b) const {
  const std::vector<Nic>& mine = request_.nodes[static_cast<size_t>(a)].nics;
  const std::vector<Nic>& theirs = request_.nodes[static_cast<size_t>(b)].nics;
  double sum = 0;
  for (size_t rail = 0; rail < std::min(mine.size(), theirs.size()); rail++) {
    sum += std::min(leftOf(mine[rail]), leftOf(theirs[rail]));
  }
  return sum;
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
