#include "sim/streams.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/cost/formulas.h"
#include "planner/cost/nccl_table.h"

namespace r2cc::sim {
namespace {

using planner::Kind;
using planner::Part;
using Order = std::vector<int>;

class Streaming {
 public:
  Streaming(const planner::Cost& cost, int ranksPerNode, double factor)
      : cost_(cost), ranksPerNode_(ranksPerNode), factor_(factor) {}

  void add(const Part& part) {
    if (part.kind == Kind::Ring || part.kind == Kind::Direct) addRing(part);
    if (part.kind == Kind::Chain) addChain(part);
    if (part.kind == Kind::Tree) addTree(part);
    if (part.kind == Kind::OptCC) addOptcc(part);
    if (part.kind == Kind::Published) addPublished(part);
  }

  /// The published schedule's last phase follows all else.
  std::vector<Stream> take() {
    const auto first = static_cast<int>(streams_.size());
    for (Stream& stream : last_) {
      for (int i = 0; i < first; i++) stream.after.push_back(i);
      streams_.push_back(std::move(stream));
    }
    return std::move(streams_);
  }

 private:
  Order hostsOf(const std::vector<int>& ranks) const {
    Order out;
    for (const int rank : ranks) {
      const int host = rank / ranksPerNode_;
      if (out.empty() || out.back() != host) out.push_back(host);
    }
    if (out.size() > 1 && out.front() == out.back()) out.pop_back();
    return out;
  }

  static void ring(Stream& stream, const Order& hosts, double load) {
    if (hosts.size() < 2) return;
    for (size_t i = 0; i < hosts.size(); i++) stream.edges.push_back({hosts[i], hosts[(i + 1) % hosts.size()], load});
  }

  Stream streamOf(double share, double efficiency) const {
    Stream out;
    out.share = share;
    out.overhead = 1 / efficiency;
    return out;
  }

  void addRing(const Part& part) {
    Stream out = streamOf(part.share, cost_.ringEfficiency);
    out.ring = true;
    ring(out, hostsOf(part.order), factor_ * planner::ringLoad(static_cast<int>(part.order.size())));
    streams_.push_back(std::move(out));
  }

  void addChain(const Part& part) {
    Stream out = streamOf(part.share, cost_.chainEfficiency);
    const Order hosts = hostsOf(part.order);
    for (size_t i = 0; i + 1 < hosts.size(); i++) {
      out.edges.push_back({hosts[i], hosts[i + 1], 1});
      out.edges.push_back({hosts[i + 1], hosts[i], 1});
    }
    streams_.push_back(std::move(out));
  }

  void addTree(const Part& part) {
    Stream out = streamOf(part.share, cost_.chainEfficiency);
    for (size_t i = 1; i < part.order.size(); i++) {
      const int host = part.order[i] / ranksPerNode_;
      const int above = part.order[static_cast<size_t>(part.parents[i])] / ranksPerNode_;
      if (host == above) continue;
      out.edges.push_back({host, above, 1});
      out.edges.push_back({above, host, 1});
    }
    streams_.push_back(std::move(out));
  }

  void addOptcc(const Part& part) {
    Stream out = streamOf(part.share, cost_.stagedEfficiency);
    const Order hosts = hostsOf(part.order);
    const int straggler = part.straggler / ranksPerNode_;
    const auto healthy = static_cast<double>(hosts.size());
    ring(out, hosts, 2 * (healthy - 1) / healthy);
    for (const int host : hosts) {
      out.edges.push_back({host, straggler, 1 / healthy});
      out.edges.push_back({straggler, host, 1 / healthy});
    }
    streams_.push_back(std::move(out));
  }

  void addPublished(const Part& part) {
    const Order all = hostsOf(part.order);
    Order spared;
    for (const std::vector<int>& ranks : part.spared) spared.push_back(ranks.front() / ranksPerNode_);
    if (spared.empty()) spared.push_back(part.straggler / ranksPerNode_);
    const auto isSpared = [&](int host) { return std::find(spared.begin(), spared.end(), host) != spared.end(); };
    Order partial;
    std::copy_if(all.begin(), all.end(), std::back_inserter(partial), [&](int host) { return !isSpared(host); });
    Stream global = streamOf(part.share * (1 - part.y), cost_.stagedEfficiency);
    ring(global, all, planner::ringLoad(static_cast<int>(part.order.size())));
    Stream beside = streamOf(part.share * part.y, cost_.stagedEfficiency);
    ring(beside, partial, planner::ringLoad(static_cast<int>(partial.size()) * ranksPerNode_));
    if (global.share > 0) streams_.push_back(std::move(global));
    streams_.push_back(std::move(beside));
    last_.push_back(through(part, spared, partial));
  }

  /// From a hub to the straggler, along the line of the healthy to the hub; it takes from the others that were spared
  /// before and gives to them afterwards. Hubs take turns. Filling the line with its pieces takes as long as one of
  /// them more.
  Stream through(const Part& part, const Order& spared, const Order& partial) const {
    Stream out = streamOf(part.share * part.y, cost_.stagedEfficiency / (1 + 1.0 / std::max(1, part.pieces)));
    Order line{spared.front()};
    line.insert(line.end(), partial.begin(), partial.end());
    ring(out, line, 1);
    for (size_t i = 1; i < spared.size(); i++) {
      for (const int hub : partial) {
        out.edges.push_back({spared[i], hub, 1 / static_cast<double>(partial.size())});
        out.edges.push_back({hub, spared[i], 1 / static_cast<double>(partial.size())});
      }
    }
    return out;
  }

  const planner::Cost& cost_;
  const int ranksPerNode_;
  const double factor_;
  std::vector<Stream> streams_;
  std::vector<Stream> last_;
};

}  // namespace

std::vector<Stream> streamsOf(const planner::Plan& plan, const planner::Cost& cost, int ranksPerNode, double factor) {
  Streaming streaming(cost, ranksPerNode, factor);
  for (const Part& part : plan.parts) streaming.add(part);
  return streaming.take();
}

std::vector<Stream> treeStreams(int hosts, const planner::Cost& cost, int rotation) {
  std::vector<Stream> out(2);
  for (Stream& stream : out) {
    stream.share = 0.5;
    stream.overhead = 1 / cost.chainEfficiency;
    stream.ring = true;
  }
  size_t which = 0;
  const auto at = [&](int place) { return (place + hosts - rotation) % hosts; };
  for (const auto& [parent, child] : planner::treeEdges(hosts)) {  // of both trees by turns
    out[which].edges.push_back({at(parent), at(child), 1});
    out[which].edges.push_back({at(child), at(parent), 1});
    which = 1 - which;
  }
  return out;
}

}  // namespace r2cc::sim
