#include "planner/shapes/chains.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/cost/formulas.h"

namespace r2cc::planner {
namespace {

constexpr double kBetter = 1 - 1e-9;
constexpr double kNothing = 1e-12;  // shares below it are none
constexpr int kSearchSteps = 100;   // of a third each: to the last bit of a double

/// Which nodes may be ends of chains: the `eligible` slowest, of which the `always` slowest are an end of every chain.
struct Shape {
  bool ring = false;
  int always = 0;
  int eligible = 0;
};

/// The smallest time for one shape, exactly. In the words of docs/internals/schedules.md: z = 1 - y is the chains'
/// share, e_i the share of chains that node i is an end of, c = r y + 2 z what a node that is never an end carries.
class Allotter {
 public:
  explicit Allotter(const Cluster& cluster) : cluster_(cluster), ringLoad_(ringLoad(cluster.ranks())) {
    nodes_.resize(static_cast<size_t>(cluster.nodes()));
    for (size_t i = 0; i < nodes_.size(); i++) nodes_[i] = static_cast<int>(i);
    std::stable_sort(nodes_.begin(), nodes_.end(),
                     [&](int a, int b) { return cluster.bandwidth(a) < cluster.bandwidth(b); });
  }

  Allotment best(const Shape& shape) const {
    double y = 0;
    if (shape.ring) y = fastestShare(shape);
    const double time = timeOf(shape, y);
    Allotment out{time, y, {}};
    if (1 - y > kNothing) out.chains = paired(1 - y, ends(shape, y, time));
    return out;
  }

 private:
  double bandwidth(int place) const { return cluster_.bandwidth(nodes_[static_cast<size_t>(place)]); }
  double most(double y) const { return ringLoad_ * y + 2 * (1 - y); }

  /// A maximum of straight lines in y, therefore convex: thirds find its minimum.
  double fastestShare(const Shape& shape) const {
    double low = 0;
    double high = 1;
    for (int step = 0; step < kSearchSteps; step++) {
      const double third = (high - low) / 3;
      if (timeOf(shape, low + third) <= timeOf(shape, high - third)) {
        high -= third;
      } else {
        low += third;
      }
    }
    return timeOf(shape, low) < timeOf(shape, 0) * kBetter ? low : 0;
  }

  /// Nobody may take longer than the result: not who is always an end, not who never is, and what the others must at
  /// least be ends of, c - T B_i, must fit into what is left. Its sum over any j of them is a bound on T, the largest
  /// of which is exact.
  double timeOf(const Shape& shape, double y) const {
    const double z = 1 - y;
    const double c = most(y);
    double time = (c - z) / bandwidth(0);
    if (shape.eligible < cluster_.nodes()) time = std::max(time, c / bandwidth(shape.eligible));
    const double left = (2 - shape.always) * z;
    double sum = 0;
    for (int place = shape.always; place < shape.eligible; place++) {
      sum += bandwidth(place);
      time = std::max(time, ((place + 1 - shape.always) * c - left) / sum);
    }
    return time;
  }

  /// e_i by place. What is left over goes to all in proportion to what they can still take, so that equals get equal
  /// shares.
  std::vector<double> ends(const Shape& shape, double y, double time) const {
    const double z = 1 - y;
    std::vector<double> e(static_cast<size_t>(shape.eligible), z);
    double used = 0;
    for (int place = 0; place < shape.eligible; place++) {
      double& own = e[static_cast<size_t>(place)];
      if (place >= shape.always) own = std::clamp(most(y) - time * bandwidth(place), 0.0, z);
      used += own;
    }
    const double room = shape.eligible * z - used;
    const double spare = 2 * z - used;
    if (room > kNothing) {
      for (double& own : e) own += (z - own) * spare / room;
    }
    return e;
  }

  /// Lays the e_i on a line of length 2 z and pairs what lies at t with what lies at t + z: nobody meets itself, as e_i
  /// <= z.
  std::vector<ChainShare> paired(double z, const std::vector<double>& e) const {
    std::vector<double> until;  // where each one's piece of the line ends
    std::vector<double> cuts{0, z};
    double at = 0;
    for (const double own : e) {
      at += own;
      until.push_back(at);
      cuts.push_back(at >= z ? at - z : at);
    }
    std::sort(cuts.begin(), cuts.end());
    std::vector<ChainShare> chains;
    double from = 0;
    for (const double cut : cuts) {
      if (cut - from <= kNothing || cut > z + kNothing) continue;
      const double middle = (from + std::min(cut, z)) / 2;
      chains.push_back(between(cut - from, owner(until, middle), owner(until, middle + z)));
      from = cut;
    }
    return chains;
  }

  static size_t owner(const std::vector<double>& until, double at) {
    const auto it = std::upper_bound(until.begin(), until.end(), at);
    return static_cast<size_t>(std::min(it - until.begin(), static_cast<std::ptrdiff_t>(until.size()) - 1));
  }

  /// The slower one is the tail.
  ChainShare between(double share, size_t one, size_t other) const {
    return {share, nodes_[std::max(one, other)], nodes_[std::min(one, other)]};
  }

  const Cluster& cluster_;
  const double ringLoad_;
  std::vector<int> nodes_;  // slowest first
};

std::vector<Allotment> each(const Cluster& cluster, const std::vector<Shape>& shapes) {
  const Allotter allotter(cluster);
  std::vector<Allotment> out;
  out.reserve(shapes.size());
  for (const Shape& shape : shapes) out.push_back(allotter.best(shape));
  return out;
}

}  // namespace

std::vector<Allotment> allotEnds(const Cluster& cluster, int parts) {
  const int nodes = cluster.nodes();
  std::vector<Shape> shapes;
  for (const bool ring : {false, true}) {
    const int chains = parts - (ring ? 1 : 0);
    if (chains < 1) continue;
    // As many chains as eligible nodes at most; one fewer where one node is an end of them all.
    if (chains > 1) shapes.push_back({ring, 0, std::min(nodes, chains)});
    shapes.push_back({ring, 1, std::min(nodes, chains + 1)});
  }
  return each(cluster, shapes);
}

std::vector<Allotment> fixedEnds(const Cluster& cluster, int parts) {
  std::vector<Shape> shapes{{false, 2, 2}};
  if (parts != 1) shapes.push_back({true, 2, 2});
  return each(cluster, shapes);
}

}  // namespace r2cc::planner
