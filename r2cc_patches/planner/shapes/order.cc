#include "planner/shapes/order.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

namespace r2cc::planner {
namespace {

constexpr int kMostMoves = 64;  // an order is mended so often at most: 20 faults need far fewer
constexpr int kNothingInCommon = 1 << 20;

/// What it costs that two nodes are neighbours: 0 nothing, 1 bandwidth, and far more where they share no rail.
int dislike(const Cluster& cluster, int a, int b) {
  if (cluster.getAlong(a, b)) return 0;
  return cluster.between(a, b) > 0 ? 1 : kNothingInCommon;
}

/// One order being mended. Positions are taken modulo the size; a chain's ends stay where they are.
class Mending {
 public:
  Mending(const Cluster& cluster, std::vector<int>& order, bool ring) : cluster_(cluster), order_(order), ring_(ring) {}

  void run() {
    const size_t edges = order_.size() - (ring_ ? 0 : 1);
    int moves = 0;
    for (size_t i = 0; i < edges && moves < kMostMoves; i++) {
      if (dislike(cluster_, order_[i], order_[next(i)]) == 0) continue;
      moves++;
      if (bridge(i)) i = static_cast<size_t>(-1);  // from the start: what moved left other neighbours
    }
  }

 private:
  size_t next(size_t i) const { return i + 1 == order_.size() ? 0 : i + 1; }
  size_t before(size_t i) const { return i == 0 ? order_.size() - 1 : i - 1; }

  /// Moves the nearest node that makes things better between positions i and i + 1. Every move lowers the sum of
  /// dislikes, so it comes to an end.
  bool bridge(size_t i) {
    const size_t size = order_.size();
    for (size_t step = 2; step < size; step++) {
      const size_t at = (i + step) % size;
      if (at == i || (!ring_ && (at == 0 || at == size - 1))) continue;
      if (gain(i, at) <= 0) continue;
      move(at, i);
      return true;
    }
    return false;
  }

  long gain(size_t i, size_t at) const {
    const int left = order_[i];
    const int right = order_[next(i)];
    const int bridge = order_[at];
    const int a = order_[before(at)];
    const int b = order_[next(at)];
    const long was = long{dislike(cluster_, left, right)} + dislike(cluster_, a, bridge) + dislike(cluster_, bridge, b);
    const long is = long{dislike(cluster_, left, bridge)} + dislike(cluster_, bridge, right) + dislike(cluster_, a, b);
    return was - is;
  }

  void move(size_t from, size_t after) {
    const auto begin = order_.begin();
    const auto at = [&](size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
    if (from > after) {
      std::rotate(at(after + 1), at(from), at(from + 1));
    } else {
      std::rotate(at(from), at(from + 1), at(after + 1));
    }
  }

  const Cluster& cluster_;
  std::vector<int>& order_;
  const bool ring_;
};

}  // namespace

std::vector<int> requestOrder(const Cluster& cluster) {
  std::vector<int> order(static_cast<size_t>(cluster.nodes()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int> ringOrder(const Cluster& cluster) {
  std::vector<int> order = requestOrder(cluster);
  if (order.size() > 3) Mending(cluster, order, true).run();
  return order;
}

std::vector<int> partialRing(const Cluster& cluster, std::vector<int> nodes) {
  if (nodes.size() > 3) Mending(cluster, nodes, true).run();
  return nodes;
}

std::vector<int> without(const std::vector<int>& nodes, const std::vector<int>& left) {
  std::vector<int> taken = left;
  std::sort(taken.begin(), taken.end());
  std::vector<int> rest;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(rest),
               [&](int node) { return !std::binary_search(taken.begin(), taken.end(), node); });
  return rest;
}

Seating::Seating(const Cluster& cluster, const std::vector<int>& ring)
    : cluster_(cluster), ring_(ring), picky_(ring.size()), used_(ring.size()) {
  for (size_t i = 0; i < ring.size(); i++) {
    picky_[i] = cluster.picky(static_cast<int>(i));
    anyPicky_ = anyPicky_ || picky_[i];
  }
}

std::vector<int> Seating::chain(int head, int tail, double share) {
  std::vector<int> inner;
  std::vector<int> later;
  const auto from = std::find(ring_.begin(), ring_.end(), head) - ring_.begin();
  for (size_t i = 1; i < ring_.size(); i++) {
    const int node = ring_[(static_cast<size_t>(from) + i) % ring_.size()];
    if (node != tail) (picky_[static_cast<size_t>(node)] ? later : inner).push_back(node);
  }
  const auto least = [&](int a, int b) { return used_[static_cast<size_t>(a)] < used_[static_cast<size_t>(b)]; };
  if (picky_[static_cast<size_t>(tail)] && !inner.empty()) {
    // The last of equals: without history that is the ring's own order.
    const auto next = std::min_element(inner.rbegin(), inner.rend(), least);
    std::rotate(inner.begin(), next.base(), inner.end());
  }
  std::vector<int> order{head};
  order.insert(order.end(), inner.begin(), inner.end());
  order.push_back(tail);
  for (const int node : later) seat(order, node);
  if (order.size() > 3) Mending(cluster_, order, false).run();
  if (anyPicky_) count(order, share);
  return order;
}

/// Between the two neighbours that have done least for its like so far; not beside another of them if that can be
/// helped.
void Seating::seat(std::vector<int>& order, int node) {
  const auto cost = [&](int neighbour) {
    const auto i = static_cast<size_t>(neighbour);
    return used_[i] + (picky_[i] ? kNothingInCommon : 0);
  };
  size_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < order.size(); i++) {
    const double worst = std::max(cost(order[i - 1]), cost(order[i]));
    if (worst < least) least = worst, best = i;
  }
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(best), node);
}

void Seating::count(const std::vector<int>& order, double share) {
  for (size_t i = 0; i + 1 < order.size(); i++) {
    const auto a = static_cast<size_t>(order[i]);
    const auto b = static_cast<size_t>(order[i + 1]);
    if (picky_[a]) used_[b] += share;
    if (picky_[b]) used_[a] += share;
  }
}

int strangers(const Cluster& cluster, const std::vector<int>& order, bool ring) {
  int count = 0;
  for (size_t i = 0; i + 1 < order.size(); i++) count += cluster.between(order[i], order[i + 1]) <= 0 ? 1 : 0;
  if (ring && order.size() > 2) count += cluster.between(order.back(), order.front()) <= 0 ? 1 : 0;
  return count;
}

}  // namespace r2cc::planner
