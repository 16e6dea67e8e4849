#include "capacities.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "bootstrap.h"
#include "graph.h"
#include "r2cc_health.h"

namespace r2cc::schedules {
namespace {

constexpr int kMostNics = 32;
constexpr double kStep = 1.0 / 16;  // a measured rate wavers by less; a plan changes little for less

struct Facts {
  int nics = 0;
  std::array<R2ccNicHealth, kMostNics> nic{};
  std::array<int, MAXCHANNELS> homes{};
};

Facts localFacts() {
  Facts facts;
  facts.nics = std::clamp(r2ccHealth(facts.nic.data(), kMostNics), 0, kMostNics);
  return facts;
}

double rounded(double capacity) { return std::clamp(std::round(capacity / kStep) * kStep, 0.0, 1.0); }

std::vector<double> readReport(const std::string& report) {
  std::vector<double> values;
  std::istringstream in(report);
  for (double value = 0; in >> value;) values.push_back(value);
  return values;
}

}  // namespace

std::string Capacities::localReport() {
  const Facts facts = localFacts();
  std::ostringstream out;
  for (int i = 0; i < facts.nics; i++) out << (i == 0 ? "" : " ") << facts.nic[static_cast<size_t>(i)].capacity;
  return out.str();
}

ncclResult_t Capacities::gather(ncclComm* comm, Capacities& out) {
  std::vector<Facts> all(static_cast<size_t>(comm->nRanks));
  Facts& mine = all[static_cast<size_t>(comm->rank)];
  mine = localFacts();
  ncclTopoGraph* ring = &comm->graphs[NCCL_ALGO_RING];
  for (int which = 0; which < ring->nChannels; which++) {
    int64_t id = 0;
    int proxyRank = 0;
    NCCLCHECK(
        ncclTopoGetNetDev(comm, comm->rank, ring, which, -1, &id, &mine.homes[static_cast<size_t>(which)], &proxyRank));
  }
  NCCLCHECK(bootstrapAllGather(comm->bootstrap, all.data(), sizeof(Facts)));
  out.homes_.assign(static_cast<size_t>(comm->nNodes), {});
  out.nodes_.assign(static_cast<size_t>(comm->nNodes), {});
  for (int rank = 0; rank < comm->nRanks; rank++) {
    planner::Node& node = out.nodes_[static_cast<size_t>(comm->rankToNode[rank])];
    const Facts& facts = all[static_cast<size_t>(rank)];
    const bool first = node.ranks.empty();
    node.ranks.push_back(rank);
    if (first) {
      std::vector<int>& homes = out.homes_[static_cast<size_t>(comm->rankToNode[rank])];
      homes.assign(facts.homes.begin(), facts.homes.begin() + ring->nChannels);
    }
    if (first) node.name = "node" + std::to_string(comm->rankToNode[rank]);
    for (int i = 0; i < std::clamp(facts.nics, 0, kMostNics); i++) {
      const R2ccNicHealth& nic = facts.nic[static_cast<size_t>(i)];
      const std::string name(nic.name, strnlen(nic.name, sizeof(nic.name)));
      if (first)
        node.nics.push_back({name, nic.rate_gbit, rounded(nic.capacity)});
      else if (static_cast<size_t>(i) < node.nics.size()) {
        double& known = node.nics[static_cast<size_t>(i)].capacity;
        known = std::min(known, rounded(nic.capacity));
      }
    }
  }
  return ncclSuccess;
}

Capacities Capacities::with(const ncclComm* comm, const std::vector<std::string>& reports) const {
  Capacities now = *this;
  std::vector<bool> heard(nodes_.size(), false);
  for (size_t rank = 0; rank < reports.size(); rank++) {
    const std::vector<double> values = readReport(reports[rank]);
    const auto index = static_cast<size_t>(comm->rankToNode[rank]);
    planner::Node& node = now.nodes_[index];
    if (values.size() != node.nics.size()) continue;
    for (size_t i = 0; i < values.size(); i++) {
      const double value = rounded(values[i]);
      node.nics[i].capacity = heard[index] ? std::min(node.nics[i].capacity, value) : value;
    }
    heard[index] = true;
  }
  return now;
}

std::string Capacities::text() const {
  std::ostringstream out;
  out << "capacities";
  for (size_t node = 0; node < nodes_.size(); node++) {
    for (size_t nic = 0; nic < nodes_[node].nics.size(); nic++) {
      const double capacity = nodes_[node].nics[nic].capacity;
      if (capacity < 1) out << ' ' << node << ':' << nic << '=' << capacity;
    }
  }
  return out.str();
}

bool Capacities::apply(const std::string& text) {
  std::istringstream in(text);
  std::string word;
  if (!(in >> word) || word != "capacities") return false;
  for (planner::Node& node : nodes_) {
    for (planner::Nic& nic : node.nics) nic.capacity = 1;
  }
  while (in >> word) {
    size_t node = 0, nic = 0;
    double capacity = 0;
    if (std::sscanf(word.c_str(), "%zu:%zu=%lf", &node, &nic, &capacity) != 3) return false;
    if (node >= nodes_.size() || nic >= nodes_[node].nics.size() || !(capacity >= 0 && capacity <= 1)) return false;
    nodes_[node].nics[nic].capacity = capacity;
  }
  return true;
}

}  // namespace r2cc::schedules
