#include "capacities.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "bootstrap.h"
#include "graph.h"
#include "net/r2cc_net.h"
#include "planner/capacities.h"
#include "record/r2cc_health.h"

namespace r2cc::schedules {
namespace {

constexpr int kMostNics = 32;

struct Facts {
  int nics = 0;
  bool failTogether = false;
  std::array<R2ccNicHealth, kMostNics> nic{};
  std::array<int, MAXCHANNELS> homes{};
};

Facts localFacts() {
  Facts facts;
  facts.nics = std::clamp(r2ccHealth(facts.nic.data(), kMostNics), 0, kMostNics);
  facts.failTogether = r2ccNicsFailTogether() != 0;
  return facts;
}

}  // namespace

std::string Capacities::localReport() {
  const Facts facts = localFacts();
  std::vector<double> capacities;
  for (int i = 0; i < facts.nics; i++) capacities.push_back(facts.nic[static_cast<size_t>(i)].capacity);
  return planner::capacityReport(capacities);
}

ncclResult_t Capacities::gather(ncclComm* comm, Capacities& out) {
  std::vector<Facts> all(static_cast<size_t>(comm->nRanks));
  Facts& mine = all[static_cast<size_t>(comm->rank)];
  // Of a process with other communicators, NICs may be ours where this one goes over another plugin's net.
  if (comm->ncclNet != nullptr && r2ccWraps(comm->ncclNet)) mine = localFacts();
  ncclTopoGraph* ring = &comm->graphs[NCCL_ALGO_RING];
  for (int which = 0; which < ring->nChannels; which++) {
    int64_t id = 0;
    int proxyRank = 0;
    NCCLCHECK(
        ncclTopoGetNetDev(comm, comm->rank, ring, which, -1, &id, &mine.homes[static_cast<size_t>(which)], &proxyRank));
  }
  NCCLCHECK(bootstrapAllGather(comm->bootstrap, all.data(), sizeof(Facts)));
  out.homes.assign(static_cast<size_t>(comm->nNodes), {});
  out.nodes.assign(static_cast<size_t>(comm->nNodes), {});
  for (int rank = 0; rank < comm->nRanks; rank++) {
    planner::Node& node = out.nodes[static_cast<size_t>(comm->rankToNode[rank])];
    const Facts& facts = all[static_cast<size_t>(rank)];
    out.failTogether |= facts.failTogether;
    const bool first = node.ranks.empty();
    node.ranks.push_back(rank);
    if (first) {
      std::vector<int>& homes = out.homes[static_cast<size_t>(comm->rankToNode[rank])];
      homes.assign(facts.homes.begin(), facts.homes.begin() + ring->nChannels);
    }
    if (first) node.name = "node" + std::to_string(comm->rankToNode[rank]);
    for (int i = 0; i < std::clamp(facts.nics, 0, kMostNics); i++) {
      const R2ccNicHealth& nic = facts.nic[static_cast<size_t>(i)];
      const std::string name(nic.name, strnlen(nic.name, sizeof(nic.name)));
      if (first)
        node.nics.push_back({name, nic.rate_gbit, planner::roundedCapacity(nic.capacity)});
      else if (static_cast<size_t>(i) < node.nics.size()) {
        double& known = node.nics[static_cast<size_t>(i)].capacity;
        known = std::min(known, planner::roundedCapacity(nic.capacity));
      }
    }
  }
  return ncclSuccess;
}

}  // namespace r2cc::schedules
