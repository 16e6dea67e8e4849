// Channels on which a chain, or a ring in another order, can be run, beside NCCL's own. Each lies along a cycle of the
// nodes with connections in both directions, made ahead: the cycle is a ring, and any cut of it is a chain, so that a
// new plan only writes up and down pointers of trees. A cycle has one channel for each of the ring graph's, so that
// every NIC carries each cycle. NCCL may give a channel another rail on every other node; here the same place among a
// cycle's channels is the same rail everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm.h"
#include "planner/planner.h"
#include "tree_versions.h"

namespace r2cc::schedules {

class ChainChannels {
 public:
  /// Empty where this communicator can have none; `reason` says why. The same on all ranks. `homes`: by node, the NICs
  /// of the ring graph's channels.
  static ChainChannels layOut(const ncclComm* comm, const std::vector<std::vector<int>>& homes, std::string& reason);

  bool empty() const { return cycles_.empty(); }
  /// Orders of ranks, nodes whole; where the channels of a cycle pass a node's ranks in different orders, the first's.
  const std::vector<std::vector<int>>& cycles() const { return cycles_; }
  /// Ids of the channels of a cycle.
  int channel(size_t cycle, int which) const { return base_ + static_cast<int>(cycle) * perCycle_ + which; }
  int perCycle() const { return perCycle_; }
  /// NICs of a cycle's channels, as node 0 has them.
  const std::vector<int>& homes() const { return homes_; }
  int nodes() const { return static_cast<int>(nodeOrders_.empty() ? 0 : nodeOrders_.front().size()); }

  /// Makes the channels with their rings, and connects both directions. A connection sends while at most `window` bytes
  /// are under way. `inTurn`: a plan may be (planner::Plan). Collective.
  ncclResult_t connect(ncclComm* comm, uint64_t window, bool inTurn);
  /// The chain from `order`'s first rank (head) to its last, or `backwards`, on these of the cycle's channels; in the
  /// host's structures. False if `order` is no cut of that cycle, or a held channel is cut elsewhere.
  bool cut(ncclComm* comm, size_t cycle, const std::vector<int>& homes, const std::vector<int>& order, bool backwards);
  /// A tree on these of the line's channels; in the host's structures. False if a held channel has another, or a chain.
  bool hang(ncclComm* comm, size_t line, const std::vector<int>& homes, const planner::Part& tree);
  /// The channel's tree in the host's structures, as it is now: that copy stays as it is for as long as these channels
  /// live. Null for a channel of NCCL's own, whose tree never changes.
  const ncclTree* treeNow(const ncclComm* comm, int channel);
  /// Connections of trees that hang() laid are still to be made. The same on all ranks.
  bool unconnected() const { return !hung_.empty(); }
  /// Makes them. Collective.
  ncclResult_t connectHung(ncclComm* comm);
  /// A CUDA graph has that channel as it is cut now: it stays so. When the graph is gone each rank learns at another
  /// moment, and ranks that cut differently would wait for each other for ever.
  void hold(int channel);
  bool held() const { return !held_.empty(); }
  /// Copies all trees to the device, in order with what is enqueued before and after; before what is captured, too.
  ncclResult_t upload(ncclComm* comm) const;

 private:
  std::vector<int> along(size_t cycle, int which) const;
  /// One channel, with its ring; what it is to be connected with is noted.
  ncclResult_t make(ncclComm* comm, size_t cycle, int which) const;
  int base_ = 0;
  int perCycle_ = 0;
  uint64_t window_ = UINT64_MAX;
  int rank_ = 0;
  std::vector<std::vector<int>> cycles_;
  std::vector<std::vector<int>> nodeOrders_;                // by cycle
  std::vector<std::vector<std::vector<int>>> insideNodes_;  // [channel of a cycle][node]: its ranks in order
  std::vector<int> homes_;
  /// Of a chain the nodes from its head on; of a tree each node's parent.
  using Shape = std::pair<planner::Kind, std::vector<int>>;
  std::map<int, Shape> shapes_;  // by channel
  std::map<int, Shape> held_;
  TreeVersions versions_;
  bool lay(int channel, Shape shape);
  std::set<int> hung_;     // channels
  ncclTopoGraph graph_{};  // the ring graph with its channels in the order of their NICs
};

}  // namespace r2cc::schedules
