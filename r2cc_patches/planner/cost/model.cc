#include "planner/cost/model.h"

#include <algorithm>
#include <utility>

#include "planner/cost/formulas.h"
#include "planner/shapes/order.h"
#include "planner/shapes/tree.h"

namespace r2cc::planner {
namespace {

constexpr int kMostPieces = 32;

}  // namespace

Estimate::Estimate(const Cluster& cluster, const Cost& cost, std::vector<Draft> drafts, const RingUse& ringUse)
    : cluster_(cluster),
      cost_(cost),
      drafts_(std::move(drafts)),
      loads_(static_cast<size_t>(cluster.nodes())),
      busy_(loads_.size()),
      afterwards_(loads_.size()) {
  for (const Draft& draft : drafts_) {
    if (draft.kind == Kind::Ring || draft.kind == Kind::Direct) addRing(draft, ringUse);
    if (draft.kind == Kind::Chain) addChain(draft);
    if (draft.kind == Kind::Tree) addTree(draft);
    if (draft.kind == Kind::OptCC) addOptcc(draft);
    if (draft.kind == Kind::Published) addPublished(draft);
  }
  if (cost.localGBps > 0 && cluster.ranks() > cluster.nodes()) {
    atLeast(2 * chained_ / (cost.localGBps * kBytesPerUsOfGBps));  // up and down between any two ranks of a node
  }
  for (int node = 0; node < cluster.nodes(); node++) {
    const auto ranks = static_cast<double>(cluster.ranksOf(node).size());
    busiestRank_ = std::max(busiestRank_, loads_[static_cast<size_t>(node)] / ranks);
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
  if (load <= 0 || !(cluster_.uneven(from, to) || cluster_.between(from, to) <= 0)) return;
  if (cost_.evenRails && cluster_.between(from, to) > 0) {
    tilt(tilts_[from].out, from, to, load / efficiency);
    tilt(tilts_[to].in, to, from, load / efficiency);
  } else if (!cluster_.getAlong(from, to)) {
    narrow_[int64_t{from} * cluster_.nodes() + to] += load / (cluster_.exchange(from, to) * efficiency);
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

void Estimate::addRing(const Draft& draft, const RingUse& use) {
  const double load = draft.share * use.load * ringLoad(cluster_.ranks());
  ring(draft.order, load, cost_.ringEfficiency);
  latencyUs_ = std::max(latencyUs_, ringHopsUs(use.hops));
  if (draft.cycle >= 0) onChannels(draft, load / 2);
}

void Estimate::addChain(const Draft& draft) {
  const size_t last = draft.order.size() - 1;
  for (size_t i = 0; i <= last; i++) {
    carry(draft.order[i], draft.share * (i == 0 || i == last ? 1 : 2), cost_.chainEfficiency);
    if (i == last) break;
    edge(draft.order[i], draft.order[i + 1], draft.share, cost_.chainEfficiency);
    edge(draft.order[i + 1], draft.order[i], draft.share, cost_.chainEfficiency);
  }
  addPipelines(draft, 2 * static_cast<int>(last));
}

/// `order` has the nodes by slot.
void Estimate::addTree(const Draft& draft) {
  const int nodes = static_cast<int>(draft.order.size());
  const std::vector<int> degrees = treeDegrees(nodes);
  for (int slot = 0; slot < nodes; slot++) {
    const int node = draft.order[static_cast<size_t>(slot)];
    carry(node, draft.share * degrees[static_cast<size_t>(slot)], cost_.chainEfficiency);
    if (slot == 0) continue;
    const int parent = draft.order[static_cast<size_t>(treeParent(nodes, slot))];
    edge(node, parent, draft.share, cost_.chainEfficiency);
    edge(parent, node, draft.share, cost_.chainEfficiency);
  }
  addPipelines(draft, 2 * treeDepth(nodes));
}

/// In each node through all of its ranks, and back.
void Estimate::addPipelines(const Draft& draft, int hops) {
  const int local = 2 * (cluster_.ranks() - cluster_.nodes());
  latencyUs_ = std::max(latencyUs_, cost_.baseUs + hops * cost_.hopUs + local * cost_.localHopUs);
  const size_t channels = std::max<size_t>(1, draft.homes.size());
  onChannels(draft, draft.share);
  for (size_t i = 0; i < channels; i++) pipelines_.push_back({hops, draft.share / static_cast<double>(channels)});
}

/// `load`: of the message, once through each rank and back, which is what a channel of a chain is known to carry.
void Estimate::onChannels(const Draft& draft, double load) {
  chained_ += load;
  if (cost_.channelGBps <= 0) return;
  const auto channels = static_cast<double>(std::max<size_t>(1, draft.homes.size()));
  atLeast(load / channels / (cost_.channelGBps * kBytesPerUsOfGBps));
}

void Estimate::addOptcc(const Draft& draft) {
  const auto healthy = static_cast<double>(draft.order.size());
  ring(draft.order, draft.share * 2 * (healthy - 1) / healthy, cost_.stagedEfficiency);
  carry(draft.straggler, draft.share, cost_.stagedEfficiency);
  for (const int node : draft.order) {
    carry(node, draft.share / healthy, cost_.stagedEfficiency);
    edge(node, draft.straggler, draft.share / healthy, cost_.stagedEfficiency);
    edge(draft.straggler, node, draft.share / healthy, cost_.stagedEfficiency);
  }
  const int hops = 2 * static_cast<int>(draft.order.size());  // to the owner, the straggler, and back
  latencyUs_ = std::max(latencyUs_, hops * cost_.hopUs);
  // Half of a shard's connections wait for the other half while it is filled.
  pipelines_.push_back({hops, 2 * draft.share / healthy});
}

void Estimate::addPublished(const Draft& draft) {
  const std::vector<int> partial = without(draft.order, draft.spared);
  const auto left = static_cast<int>(cluster_.ranksOf(draft.spared).size());
  ring(draft.order, draft.share * (1 - draft.y) * ringLoad(cluster_.ranks()), cost_.stagedEfficiency);
  ring(partial, draft.share * draft.y * ringLoad(cluster_.ranks() - left), cost_.stagedEfficiency);
  // A line through all with the straggler in it; the others that are spared give to the healthy and take from them.
  const double moved = draft.share * draft.y;
  const double more = moved * static_cast<double>(draft.spared.size() - 1) / static_cast<double>(partial.size());
  for (const int node : draft.spared) carryAfter(node, moved);
  for (const int node : partial) carryAfter(node, moved + more);
  latencyUs_ = std::max(latencyUs_, ringHopsUs(1));
}

void Estimate::carryAfter(int node, double load) {
  loads_[static_cast<size_t>(node)] += load;
  afterwards_[static_cast<size_t>(node)] += load / (cluster_.bandwidth(node) * cost_.stagedEfficiency);
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

/// A connection's rate is its bytes over the time of all: the NICs that it passes carry the others beside it. Pipelines
/// that are filled leave their NICs to the others meanwhile, so that their mean counts, not the slowest.
double Estimate::fillUs(double bytes) const {
  const double usPerByte = std::max(usPerByte_, rankUsPerByte(bytes));
  double sum = 0;
  for (const Pipeline& pipeline : pipelines_) {
    const double chunk = std::min(chunkOf(pipeline, bytes), pipeline.share * bytes);
    sum += (pipeline.hops - 1) * chunk * usPerByte / pipeline.share;
  }
  return pipelines_.empty() ? 0 : sum / static_cast<double>(pipelines_.size());
}

double Estimate::chunkOf(const Pipeline& pipeline, double bytes) const {
  const auto least = static_cast<double>(cost_.chunkBytes);
  if (cost_.mostChunkBytes <= cost_.chunkBytes) return least;
  return std::clamp(pipeline.share * bytes / (pipeline.hops * static_cast<double>(kChunksPerHop)), least,
                    static_cast<double>(cost_.mostChunkBytes));
}

/// A node's ranks share its connections: each is at one end of as many. Rings beside chains have chunks as small. What
/// is less than a chunk costs the thread as much as one.
double Estimate::rankUsPerByte(double bytes) const {
  if (cost_.rankGBps <= 0) return 0;
  double chunks = 0, chunksOfAll = 0, shares = 0;  // for each byte
  for (const Pipeline& pipeline : pipelines_) {
    const double chunk = chunkOf(pipeline, bytes);
    chunks = std::max(chunks, 1 / chunk);
    if (bytes > 0) chunksOfAll += std::max(pipeline.share / chunk, 1 / bytes);
    shares += pipeline.share;
  }
  if (shares > 0) chunks = std::max(chunks, chunksOfAll / shares);
  return busiestRank_ * (1 / (cost_.rankGBps * kBytesPerUsOfGBps) + cost_.rankChunkUs * chunks);
}

double Estimate::predictedUs(double bytes) const {
  const int k = pieces(bytes);
  return std::max(usPerByte_, rankUsPerByte(bytes)) * bytes + latencyUs_ + fillUs(bytes) +
         (k > 0 ? afterUs(bytes, k) : 0);
}

double Estimate::latencyUs(double bytes) const {
  const int k = pieces(bytes);
  return latencyUs_ + fillUs(bytes) + (k > 0 ? (cluster_.nodes() - 1 + k) * cost_.hopUs : 0);
}

RingUse ringUse(const std::string& op, int ranks, int ranksANode) {
  if (op == "allreduce") return {};
  if (op == "allgather" || op == "reducescatter") return {0.5, 0.5};
  const double whole = ranks > 1 ? 1 / ringLoad(ranks) : 0;
  if (op == "broadcast" || op == "reduce" || op == "sendrecv") return {whole, whole};
  if (op != "alltoall") return {-1, -1};
  const double away = static_cast<double>(ranks - ranksANode) / ranks;
  return {ranksANode * away * whole, whole * ranksANode / ranks};
}

RingUse ringUse(const std::string& op, const Cluster& cluster) {
  size_t most = 1;
  for (int node = 0; node < cluster.nodes(); node++) most = std::max(most, cluster.ranksOf(node).size());
  return ringUse(op, cluster.ranks(), static_cast<int>(most));
}

double boundUs(const Cluster& cluster, const std::string& op, double bytes) {
  if (cluster.nodes() < 2) return 0;
  double slowest = bytes / cluster.slowest();
  if (op == "allreduce") return std::max(slowest, 2 * (cluster.nodes() - 1) * bytes / cluster.total());
  if (op == "broadcast" || op == "reduce" || op == "sendrecv") return slowest;
  slowest = 0;
  for (int node = 0; node < cluster.nodes(); node++) {
    const auto ranks = static_cast<double>(cluster.ranksOf(node).size());
    const double times = op == "alltoall" ? ranks : 1;  // each rank has its own for all others
    slowest = std::max(slowest, times * (1 - ranks / cluster.ranks()) * bytes / cluster.bandwidth(node));
  }
  return slowest;
}

double healthyUs(const Cluster& cluster, const Cost& cost, double bytes, const RingUse& use, double slower) {
  const int n = cluster.ranks();
  const int remote = cluster.nodes() > 1 ? cluster.nodes() : 0;
  const double hopsUs = ringLoad(n) * (remote * cost.hopUs + (n - remote) * cost.localHopUs);
  double usPerByte = slower / (cluster.healthySlowest() * cost.ringEfficiency);
  for (int node = 0; node < cluster.nodes() && cost.rankGBps > 0; node++) {
    const auto ranks = static_cast<double>(cluster.ranksOf(node).size());
    usPerByte = std::max(usPerByte, 1 / (ranks * cost.rankGBps * kBytesPerUsOfGBps));
  }
  const double band = remote > 0 ? bytes * usPerByte : 0;
  return use.load * ringLoad(n) * band + use.hops * hopsUs;
}

}  // namespace r2cc::planner
