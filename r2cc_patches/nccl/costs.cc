#include "costs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph.h"
#include "graph/topo.h"
#include "net/net_process.h"
#include "net/r2cc_net.h"
#include "planner/cost/nccl_table.h"
#include "settings.h"
#include "tree_slots.h"
#include "wire/party.h"

namespace r2cc::schedules {
namespace {

using planner::Flow;
using planner::Gpu;

constexpr double kSocketHopUs = 50;  // all-reduces of 16 KiB between four hosts (docs/results/schedules.md)
constexpr double kWire[NCCL_NUM_PROTOCOLS] = {2, 128.0 / 120, 1};  // flags beside the data
constexpr int kVolta = 70, kAmpere = 80, kHopper = 90, kBlackwell = 100;

Gpu gpuOf(const ncclComm* comm) {
  if (comm->minCompCap >= kBlackwell) return Gpu::Blackwell;
  if (comm->minCompCap >= kHopper) return Gpu::Hopper;
  return comm->minCompCap >= kAmpere ? Gpu::Ampere : Gpu::Volta;
}

Flow flowOf(int algorithm) {
  if (algorithm == NCCL_ALGO_RING) return Flow::Ring;
  // What switches compute leaves each node once, and comes back once.
  return algorithm == NCCL_ALGO_TREE || algorithm == NCCL_ALGO_NVLS_TREE ? Flow::Tree : Flow::Direct;
}

std::optional<planner::Algorithm> algorithmOf(int algorithm) {
  if (algorithm == NCCL_ALGO_RING) return planner::Algorithm::Ring;
  if (algorithm == NCCL_ALGO_TREE) return planner::Algorithm::Tree;
  if (algorithm == NCCL_ALGO_NVLS_TREE) return planner::Algorithm::NvlsTree;
  return std::nullopt;
}

bool overSockets(const ncclComm* comm) {
  return r2ccWraps(comm->ncclNet) && innerOf(NetProcess::instance().inner().name) == Inner::Socket;
}

}  // namespace

std::string nameOf(int algorithm, int protocol) {
  return std::string(ncclAlgoToString(algorithm)) + "/" + ncclProtoToString(protocol);
}

std::vector<planner::Rival> rivalsOf(ncclComm* comm, ncclFunc_t func) {
  constexpr int kOneTask = 1;
  std::vector<planner::Rival> out;
  for (int algorithm = 0; algorithm < NCCL_NUM_ALGORITHMS; algorithm++) {
    for (int protocol = 0; protocol < NCCL_NUM_PROTOCOLS; protocol++) {
      if (comm->bandwidths[func][algorithm][protocol] <= 0) continue;
      const bool nvls = algorithm == NCCL_ALGO_NVLS || algorithm == NCCL_ALGO_NVLS_TREE;
      if (nvls && comm->nvlsSupport == 0) continue;
      planner::Rival rival;
      rival.name = nameOf(algorithm, protocol);
      rival.flow = flowOf(algorithm);
      if (rival.flow == Flow::Tree) rival.slots = treeSlots(comm);
      rival.wire = kWire[protocol];
      if (comm->tuner == nullptr) {
        rival.latencyUs = comm->latencies[func][algorithm][protocol];
        for (int power = 0; power <= planner::kLargestPower; power++) {
          float us = 0;
          if (ncclTopoGetAlgoTime(comm, func, algorithm, protocol, size_t{1} << power, kOneTask, &us) != ncclSuccess)
            us = 0;
          rival.us.push_back(std::max(0.0F, us));
        }
      }
      const std::optional<planner::Algorithm> known = algorithmOf(algorithm);
      const std::optional<planner::Costs>& costs = Settings::get().costs;
      if (known && costs && costs->nccl && !rival.us.empty())
        planner::asMeasured(rival, *known, protocol, *costs->nccl, comm->nNodes, comm->nRanks);
      out.push_back(std::move(rival));
    }
  }
  return out;
}

planner::Cost costOf(const ncclComm* comm, int leastChunkBytes, int mostChunkBytes) {
  const ncclTopoGraph& ring = comm->graphs[NCCL_ALGO_RING];
  planner::NcclMachine machine;
  machine.gpu = gpuOf(comm);
  machine.nvlink = ring.typeIntra <= LINK_NVL;
  machine.localGBps = comm->nRanks > comm->nNodes ? static_cast<double>(ring.bwIntra) * ring.nChannels : 0;
  planner::Cost cost = planner::ncclCost(machine);
  if (const std::optional<planner::Costs>& costs = Settings::get().costs) {  // but for what this communicator knows
    const planner::Cost table = std::exchange(cost, costs->cost);
    cost.channelGBps = table.channelGBps;
    cost.localGBps = table.localGBps;
  } else if (overSockets(comm)) {
    cost.hopUs = std::max(cost.hopUs, kSocketHopUs);
  }
  if (overSockets(comm)) planner::throughSockets(cost);
  cost.chunkBytes = static_cast<uint64_t>(leastChunkBytes);
  cost.mostChunkBytes = static_cast<uint64_t>(mostChunkBytes);
  return cost;
}

}  // namespace r2cc::schedules
