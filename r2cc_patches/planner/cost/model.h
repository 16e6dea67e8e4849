// What parts cost: every node's bytes, and the time of the slowest. Inside the planner parts are orders of nodes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/cost/cluster.h"

namespace r2cc::planner {

/// A Part before its nodes become ranks.
struct Draft {
  Kind kind = Kind::Ring;
  double share = 1;
  std::vector<int> order;
  int straggler = -1;
  bool mirrored = false;
  double y = 0;
  int cycle = -1;
  std::vector<int> homes = {};   // NOLINT(readability-redundant-member-init): as Part's
  std::vector<int> spared = {};  // NOLINT(readability-redundant-member-init): of a published part: the straggler first
};

constexpr size_t kChunksPerHop = 32;  // a chain's fill is then one part in so many of its time

/// How an operation uses the ring that it is planned as, relative to an AllReduce: what every node's NICs carry, and
/// the hops that follow each other.
struct RingUse {
  double load = 1;
  double hops = 1;
};

/// Drafts and their cost, as a function of the message's size.
class Estimate {
 public:
  Estimate(const Cluster& cluster, const Cost& cost, std::vector<Draft> drafts, const RingUse& ringUse = {});

  /// It takes so long at least.
  void atLeast(double usPerByte) { usPerByte_ = std::max(usPerByte_, usPerByte); }
  /// Its hops do.
  void hopsAtLeast(double us) { latencyUs_ = std::max(latencyUs_, us); }
  double predictedUs(double bytes) const;
  /// Of which hops, and pipelines that fill.
  double latencyUs(double bytes) const;
  /// K of the published parts: the fastest. 0 without any.
  int pieces(double bytes) const;
  /// Bandwidth alone.
  double usPerByte() const { return usPerByte_ + afterUsPerByte_; }
  /// Every node's bytes out, which are its bytes in, for each byte of the message.
  const std::vector<double>& loads() const { return loads_; }
  const std::vector<Draft>& drafts() const { return drafts_; }

 private:
  /// A pipeline is full for all but the time in which its first chunk passes it.
  struct Pipeline {
    int hops = 0;
    double share = 0;  // of the message, through each of its connections
  };
  double fillUs(double bytes) const;
  double rankUsPerByte(double bytes) const;
  double chunkOf(const Pipeline& pipeline, double bytes) const;
  void ring(const std::vector<int>& order, double load, double efficiency);
  void addRing(const Draft& draft, const RingUse& use);
  void addChain(const Draft& draft);
  void onChannels(const Draft& draft, double load);
  void addTree(const Draft& draft);
  void addPipelines(const Draft& draft, int hops);
  void addOptcc(const Draft& draft);
  void addPublished(const Draft& draft);
  void carry(int node, double load, double efficiency);
  void carryAfter(int node, double load);
  void edge(int from, int to, double load, double efficiency);
  void tilt(std::vector<double>& rails, int node, int other, double load) const;
  double ringHopsUs(double factor) const;
  double afterUs(double bytes, int pieces) const;

  const Cluster& cluster_;
  Cost cost_;
  std::vector<Draft> drafts_;
  std::vector<double> loads_;
  std::vector<double> busy_;        // us a byte
  std::vector<double> afterwards_;  // us a byte, in the published schedule's last phase, which follows all the rest
  std::unordered_map<int64_t, double> narrow_;  // us a byte, from node to node, where neighbours do not get along
  /// What each rail of a node carries more (or less) than all its NICs on average, in us a byte; out and in.
  struct Tilt {
    std::vector<double> out, in;
  };
  std::unordered_map<int, Tilt> tilts_;
  double latencyUs_ = 0;  // of the slowest part
  std::vector<Pipeline> pipelines_;
  double chained_ = 0;      // what goes along cycles, chains and trees
  double busiestRank_ = 0;  // what one rank sends over the network, of the message
  double usPerByte_ = 0;
  double afterUsPerByte_ = 0;
};

/// An all-to-all is no ring: each rank sends each other its part at the same time, so that a node's NICs carry what all
/// of its `ranksANode` ranks have for other nodes, in one hop. A load below 0: there is no such operation.
RingUse ringUse(const std::string& op, int ranks, int ranksANode);
RingUse ringUse(const std::string& op, const Cluster& cluster);
/// No schedule is faster, by bandwidth alone; see docs/internals/schedules.md.
double boundUs(const Cluster& cluster, const std::string& op, double bytes);
/// One ring over all ranks, with every NIC whole; or with all nodes by so much slower.
double healthyUs(const Cluster& cluster, const Cost& cost, double bytes, const RingUse& use, double slower = 1);

}  // namespace r2cc::planner
