#include "planner/cost/cluster.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace r2cc::planner {
namespace {

constexpr double kBytesPerUsOfGbit = 125;
constexpr double kSame = 1e-9;        // bandwidths that differ by less are equal
constexpr size_t kMostCached = 1024;  // classes

double leftOf(const Nic& nic) { return nic.rateGbit * nic.capacity * kBytesPerUsOfGbit; }

/// By plane, where the request has planes; else by rail.
std::vector<double> lanesOf(const Node& node, int planes) {
  const size_t count = planes > 0 ? std::min(static_cast<size_t>(planes), node.nics.size()) : node.nics.size();
  std::vector<double> out(count, 0);
  for (size_t nic = 0; nic < node.nics.size(); nic++) out[nic % count] += leftOf(node.nics[nic]);
  return out;
}

}  // namespace

Cluster::Cluster(const Request& request) : request_(request) {
  std::map<std::vector<double>, size_t> classes;
  for (const Node& node : request.nodes) {
    const std::vector<double> each = lanesOf(node, request.planes);
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
    const auto [known, added] = classes.emplace(each, lanes_.size());
    if (added) lanes_.push_back(each);
    class_.push_back(known->second);
    bandwidth_.push_back(sum);
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
  for (int node = 1; node < nodes(); node++) {
    if (uneven(0, node)) return false;
  }
  return true;
}

bool Cluster::picky(int node) const {
  const std::vector<Nic>& nics = request_.nodes[static_cast<size_t>(node)].nics;
  if (request_.planes == 1) return false;
  return std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) { return nic.capacity != nics.front().capacity; });
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
