#include "model.h"

#include <algorithm>
#include <utility>

#include "formulas.h"

namespace r2cc::planner {
namespace {

constexpr int kMostPieces = 32;

}  // namespace

Estimate::Estimate(const Cluster& cluster, const Cost& cost, std::vector<Draft> drafts, double ringFactor)
    : cluster_(cluster),
      cost_(cost),
      drafts_(std::move(drafts)),
      loads_(static_cast<size_t>(cluster.nodes())),
      busy_(loads_.size()),
      afterwards_(loads_.size()) {
  for (const Draft& draft : drafts_) {
    if (draft.kind == Kind::Ring) addRing(draft, ringFactor);
    if (draft.kind == Kind::Chain) addChain(draft);
    if (draft.kind == Kind::OptCC) addOptcc(draft);
    if (draft.kind == Kind::Published) addPublished(draft);
  }
  for (const double busy : busy_) usPerByte_ = std::max(usPerByte_, busy);
  for (const double busy : afterwards_) afterUsPerByte_ = std::max(afterUsPerByte_, busy);
  for (const auto& [ends, busy] : narrow_) usPerByte_ = std::max(usPerByte_, busy);
  for (const auto& [node, tilt] : tilts_) {
    const double even = busy_[static_cast<size_t>(node)];
    for (const double more : tilt.out) usPerByte_ = std::max(usPerByte_, even + more);
    for (const double more : tilt.in) usPerByte_ = std::max(usPerByte_, even + more);
  }
}

void Estimate::carry(int node, double load, double efficiency) {
  const auto i = static_cast<size_t>(node);
  loads_[i] += load;
  if (load > 0) busy_[i] += load / (cluster_.bandwidth(node) * efficiency);
}

void Estimate::edge(int from, int to, double load, double efficiency) {
  if (load <= 0 || !cluster_.uneven(from, to)) return;
  const double shared = cluster_.between(from, to);
  if (shared <= 0) return;  // by other ways than the rails
  if (cost_.evenRails) {
    tilt(tilts_[from].out, from, to, load / efficiency);
    tilt(tilts_[to].in, to, from, load / efficiency);
  } else if (!cluster_.getAlong(from, to)) {
    narrow_[int64_t{from} * cluster_.nodes() + to] += load / (shared * efficiency);
  }
}

/// A connection's bytes go over the rails as both ends have them left; `carry` counted them as this node has.
void Estimate::tilt(std::vector<double>& rails, int node, int other, double load) const {
  const std::vector<double>& mine = cluster_.lanes(node);
  const std::vector<double>& theirs = cluster_.lanes(other);
  rails.resize(mine.size());
  for (size_t rail = 0; rail < mine.size(); rail++) {
    if (mine[rail] <= 0) continue;
    const double common = rail < theirs.size() ? std::min(mine[rail], theirs[rail]) : 0;
    rails[rail] += load * (common / cluster_.between(node, other) / mine[rail] - 1 / cluster_.bandwidth(node));
  }
}

void Estimate::ring(const std::vector<int>& order, double load, double efficiency) {
  if (order.size() < 2) return;
  for (size_t i = 0; i < order.size(); i++) {
    carry(order[i], load, efficiency);
    edge(order[i], order[i + 1 == order.size() ? 0 : i + 1], load, efficiency);
  }
}

double Estimate::ringHopsUs(double factor) const {
  const int n = cluster_.ranks();
  const int remote = cluster_.nodes() > 1 ? cluster_.nodes() : 0;
  return factor * ringLoad(n) * (remote * cost_.hopUs + (n - remote) * cost_.localHopUs);
}

void Estimate::addRing(const Draft& draft, double factor) {
  ring(draft.order, draft.share * factor * ringLoad(cluster_.ranks()), cost_.ringEfficiency);
  delays_.push_back({ringHopsUs(factor), 0, 0});
}

void Estimate::addChain(const Draft& draft) {
  const size_t last = draft.order.size() - 1;
  Delay delay{0, 0, draft.share};
  for (size_t i = 0; i <= last; i++) {
    carry(draft.order[i], draft.share * (i == 0 || i == last ? 1 : 2), cost_.chainEfficiency);
    if (i == last) break;
    edge(draft.order[i], draft.order[i + 1], draft.share, cost_.chainEfficiency);
    edge(draft.order[i + 1], draft.order[i], draft.share, cost_.chainEfficiency);
    delay.fixedUs += 2 * cost_.hopUs;
    delay.usPerChunkByte += 2 / std::min(cluster_.bandwidth(draft.order[i]), cluster_.bandwidth(draft.order[i + 1]));
  }
  delay.fixedUs += 2 * cost_.localHopUs * (cluster_.ranks() - cluster_.nodes());
  delays_.push_back(delay);
}

void Estimate::addOptcc(const Draft& draft) {
  const auto healthy = static_cast<double>(draft.order.size());
  ring(draft.order, draft.share * 2 * (healthy - 1) / healthy, cost_.stagedEfficiency);
  carry(draft.straggler, draft.share, cost_.stagedEfficiency);
  double slowest = cluster_.bandwidth(draft.straggler);
  for (const int node : draft.order) {
    carry(node, draft.share / healthy, cost_.stagedEfficiency);
    edge(node, draft.straggler, draft.share / healthy, cost_.stagedEfficiency);
    edge(draft.straggler, node, draft.share / healthy, cost_.stagedEfficiency);
    slowest = std::min(slowest, cluster_.bandwidth(node));
  }
  const double hops = 2 * healthy;  // of the two half rings, to the straggler and back
  const double usPerChunkByte = 2 * (healthy - 1) / cluster_.fastest() + 2 / slowest;
  delays_.push_back({hops * cost_.hopUs, usPerChunkByte, draft.share / healthy});
}

void Estimate::addPublished(const Draft& draft) {
  const auto left = static_cast<int>(cluster_.ranksOf(draft.straggler).size());
  std::vector<int> partial = draft.order;
  partial.erase(std::find(partial.begin(), partial.end(), draft.straggler));
  ring(draft.order, draft.share * (1 - draft.y) * ringLoad(cluster_.ranks()), cost_.stagedEfficiency);
  ring(partial, draft.share * draft.y * ringLoad(cluster_.ranks() - left), cost_.stagedEfficiency);
  const double moved = draft.share * draft.y;
  for (const int node : draft.order) {
    loads_[static_cast<size_t>(node)] += moved;
    afterwards_[static_cast<size_t>(node)] += moved / (cluster_.bandwidth(node) * cost_.stagedEfficiency);
  }
  delays_.push_back({ringHopsUs(1), 0, 0});
}

double Estimate::afterUs(double bytes, int pieces) const {
  return afterUsPerByte_ * bytes * (1 + 1.0 / pieces) + (cluster_.nodes() - 1 + pieces) * cost_.hopUs;
}

int Estimate::pieces(double bytes) const {
  if (afterUsPerByte_ <= 0) return 0;
  int best = 1;
  for (int k = 2; k <= kMostPieces; k *= 2) {
    if (afterUs(bytes, k) < afterUs(bytes, best)) best = k;
  }
  return best;
}

double Estimate::predictedUs(double bytes) const {
  double slowest = 0;
  for (const Delay& delay : delays_) {
    const double chunk = std::min(static_cast<double>(cost_.chunkBytes), delay.most * bytes);
    slowest = std::max(slowest, delay.fixedUs + delay.usPerChunkByte * chunk);
  }
  const int k = pieces(bytes);
  return usPerByte_ * bytes + slowest + (k > 0 ? afterUs(bytes, k) : 0);
}

double ringFactor(const std::string& op, int ranks) {
  if (op == "allreduce") return 1;
  if (op == "allgather" || op == "reducescatter" || op == "alltoall") return 0.5;
  if (op == "broadcast" || op == "reduce" || op == "sendrecv") return ranks > 1 ? 1 / ringLoad(ranks) : 0;
  return -1;
}

double boundUs(const Cluster& cluster, const std::string& op, double bytes) {
  if (cluster.nodes() < 2) return 0;
  double slowest = bytes / cluster.slowest();
  if (op == "allreduce") return std::max(slowest, 2 * (cluster.nodes() - 1) * bytes / cluster.total());
  if (op == "broadcast" || op == "reduce" || op == "sendrecv") return slowest;
  slowest = 0;
  for (int node = 0; node < cluster.nodes(); node++) {
    const double own = static_cast<double>(cluster.ranksOf(node).size()) / cluster.ranks();
    slowest = std::max(slowest, (1 - own) * bytes / cluster.bandwidth(node));
  }
  return slowest;
}

double healthyUs(const Cluster& cluster, const Cost& cost, double bytes, double factor) {
  const int n = cluster.ranks();
  const int remote = cluster.nodes() > 1 ? cluster.nodes() : 0;
  const double hopsUs = ringLoad(n) * (remote * cost.hopUs + (n - remote) * cost.localHopUs);
  const double band = remote > 0 ? bytes / (cluster.healthySlowest() * cost.ringEfficiency) : 0;
  return factor * (ringLoad(n) * band + hopsUs);
}

}  // namespace r2cc::planner
