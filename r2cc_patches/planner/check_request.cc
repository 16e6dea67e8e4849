#include "planner/check_request.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/cost/model.h"
#include "planner/problems.h"

namespace r2cc::planner {
namespace {

constexpr size_t kMostNodes = 16384;
constexpr size_t kMostNics = 64;
constexpr int kMostRanks = 1 << 20;
constexpr int kMostChannels = 1024;
constexpr double kMostRateGbit = 1e6;
constexpr double kLeastCapacity = 1e-6;  // less of a node than this is nothing that can be planned with
constexpr double kLeastGbit = 1e-9;      // nor is one bit a second: times would have no number
constexpr double kMostHopUs = 1e9;
constexpr double kMostGBps = 1e6;
constexpr double kMostEfficiency = 2;  // of what NCCL's table has, which is less than the NICs'

// No object that ends before main() does: background threads plan.
constexpr const char* kDatatypes[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
                                      "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};

void checkNics(const Node& node, bool alone, Problems& problems) {
  double left = 0;
  double whole = 0;
  if (node.nics.size() > kMostNics) problems.add("node " + node.name + " has more than 64 NICs");
  std::set<std::string> names;
  for (const Nic& nic : node.nics) {
    const std::string what = node.name + ":" + nic.name;
    if (!names.insert(nic.name).second) problems.add("NIC " + what + " is there twice");
    problems.range(nic.rateGbit, 0, kMostRateGbit, "rate_gbit of " + what);
    problems.range(nic.capacity, 0, 1, "capacity of " + what);
    left += nic.rateGbit * nic.capacity;
    whole += nic.rateGbit;
  }
  if (alone || left > std::max(whole * kLeastCapacity, kLeastGbit)) return;
  problems.add("node " + node.name + " has no capacity at all");
  problems.hint("every node needs a NIC that works: leave the node out, or give it one back");
}

void checkNodes(const Request& request, Problems& problems) {
  if (request.nodes.empty()) problems.add("there are no nodes");
  if (request.nodes.size() > kMostNodes) problems.add("there are more than 16384 nodes");
  std::set<std::string> names;
  std::vector<int> ranks;
  for (const Node& node : request.nodes) {
    if (node.name.empty()) problems.add("a node has no name");
    if (!names.insert(node.name).second) problems.add("node " + node.name + " is there twice");
    if (node.ranks.empty()) problems.add("node " + node.name + " has no ranks");
    ranks.insert(ranks.end(), node.ranks.begin(), node.ranks.end());
    checkNics(node, request.nodes.size() == 1, problems);
  }
  if (ranks.size() > kMostRanks) problems.add("there are more than 2^20 ranks");
  std::sort(ranks.begin(), ranks.end());
  for (size_t i = 0; i < ranks.size(); i++) {
    if (i > 0 && ranks[i] == ranks[i - 1]) return problems.add("rank " + std::to_string(ranks[i]) + " is there twice");
    if (ranks[i] != static_cast<int>(i)) {
      return problems.add("ranks must be 0 to " + std::to_string(ranks.size() - 1) + ": there is " +
                          std::to_string(ranks[i]) + ", but no " + std::to_string(i));
    }
  }
}

/// Each rank once, and a node's ranks one after the other.
void checkCycle(const Request& request, const std::vector<int>& cycle, const std::string& what, Problems& problems) {
  std::vector<int> nodeOf(cycle.size(), -1);
  for (size_t node = 0; node < request.nodes.size(); node++) {
    for (const int rank : request.nodes[node].ranks) {
      if (rank >= 0 && static_cast<size_t>(rank) < nodeOf.size())
        nodeOf[static_cast<size_t>(rank)] = static_cast<int>(node);
    }
  }
  std::vector<bool> seen(cycle.size(), false);
  size_t borders = 0;
  for (size_t i = 0; i < cycle.size(); i++) {
    const auto rank = static_cast<size_t>(cycle[i]);
    if (cycle[i] < 0 || rank >= seen.size() || seen[rank]) return problems.add(what + " is no order of all ranks");
    seen[rank] = true;
    borders += i > 0 && nodeOf[rank] != nodeOf[static_cast<size_t>(cycle[i - 1])] ? 1 : 0;
  }
  const size_t nodes = request.nodes.size();
  if (std::find(nodeOf.begin(), nodeOf.end(), -1) != nodeOf.end())
    problems.add(what + " is no order of all ranks");
  else if (borders + 1 != nodes)
    problems.add(what + " must hold each node's ranks one after the other");
}

void checkCycles(const Request& request, Problems& problems) {
  size_t ranks = 0;
  for (const Node& node : request.nodes) ranks += node.ranks.size();
  if (!request.cycles.empty() && request.nodes.size() < 3) problems.add("cycles need three nodes");
  for (size_t i = 0; i < request.cycles.size(); i++) {
    const std::string what = "cycle " + std::to_string(i);
    if (request.cycles[i].size() != ranks)
      problems.add(what + " is no order of all ranks");
    else
      checkCycle(request, request.cycles[i], what, problems);
  }
}

void checkHomes(const Request& request, Problems& problems) {
  size_t most = 0;
  for (const Node& node : request.nodes) most = std::max(most, node.nics.size());
  for (const int home : request.homes) {
    if (home < 0 || static_cast<size_t>(home) >= most)
      problems.add("no node has a NIC " + std::to_string(home) + ", which is a home");
  }
}

void checkCost(const Cost& cost, Problems& problems) {
  problems.range(cost.hopUs, 0, kMostHopUs, "cost.hop_us");
  problems.range(cost.localHopUs, 0, kMostHopUs, "cost.local_hop_us");
  problems.range(static_cast<double>(cost.chunkBytes), 1, 1LL << 40, "cost.chunk_bytes");
  problems.range(cost.ringEfficiency, 0.01, 1, "cost.ring_efficiency");
  problems.range(cost.chainEfficiency, 0.01, 1, "cost.chain_efficiency");
  problems.range(cost.stagedEfficiency, 0.01, 1, "cost.staged_efficiency");
  problems.range(cost.margin, 0, 1, "cost.margin");
  problems.range(cost.baseUs, 0, kMostHopUs, "cost.base_us");
  problems.range(cost.channelGBps, 0, kMostGBps, "cost.channel_GBps");
  problems.range(cost.localGBps, 0, kMostGBps, "cost.local_GBps");
  problems.range(cost.rankGBps, 0, kMostGBps, "cost.rank_GBps");
  problems.range(cost.rankChunkUs, 0, kMostHopUs, "cost.rank_chunk_us");
}

void checkAlgorithm(const AlgorithmCost& cost, const std::string& what, Problems& problems) {
  const auto known = [&](double us, const char* name) {
    if (us != AlgorithmCost{}.hopUs) problems.range(us, 0, kMostHopUs, what + name);
  };
  known(cost.baseUs, ".base_us");
  known(cost.hopUs, ".hop_us");
  known(cost.localHopUs, ".local_hop_us");
  problems.range(cost.efficiency, 0.01, kMostEfficiency, what + ".efficiency");
}

void checkMachine(const std::optional<NcclMachine>& machine, Problems& problems) {
  if (!machine) return;
  problems.range(machine->localGBps, 0, kMostGBps, "nccl.local_GBps");
  checkAlgorithm(machine->ring, "nccl.ring", problems);
  checkAlgorithm(machine->tree, "nccl.tree", problems);
  checkAlgorithm(machine->nvlsTree, "nccl.nvls_tree", problems);
}

}  // namespace

void check(const Costs& costs) {
  Problems problems("see harness/schemas/costs.schema.json and docs/internals/schedules.md");
  checkCost(costs.cost, problems);
  checkMachine(costs.nccl, problems);
  problems.raise();
}

void check(const Request& request) {
  Problems problems("see harness/schemas/plan_request.schema.json and docs/internals/schedules.md");
  checkNodes(request, problems);
  checkCost(request.cost, problems);
  if (ringUse(request.op, 1, 1).load < 0) {
    problems.add("there is no op " + request.op +
                 ": allreduce, allgather, reducescatter, broadcast, reduce, sendrecv and alltoall are known");
  }
  if (std::find(std::begin(kDatatypes), std::end(kDatatypes), request.datatype) == std::end(kDatatypes)) {
    problems.add("there is no datatype " + request.datatype);
  }
  checkCycles(request, problems);
  checkHomes(request, problems);
  checkMachine(request.nccl, problems);
  problems.range(request.planes, 0, static_cast<double>(kMostNics), "planes");
  problems.range(request.channels, 0, kMostChannels, "channels");
  problems.range(static_cast<double>(request.bytes), 0, 1LL << 62, "bytes");
  problems.raise();
}

}  // namespace r2cc::planner
