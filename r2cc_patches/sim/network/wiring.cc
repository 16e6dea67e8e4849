#include "sim/network/wiring.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace r2cc::sim {
namespace {

constexpr double kBytesPerUsOfGbit = 125;

}  // namespace

Hosts::Hosts(const Topology& topology, int count)
    : lefts_{Left(static_cast<size_t>(topology.nics), 1.0)}, class_(static_cast<size_t>(count), 0) {}

void Hosts::set(int host, Left left) {
  const auto known = std::find(lefts_.begin(), lefts_.end(), left);
  class_[static_cast<size_t>(host)] = static_cast<int>(known - lefts_.begin());
  if (known == lefts_.end()) lefts_.push_back(std::move(left));
}

double Hosts::sum(int host) const { return std::accumulate(left(host).begin(), left(host).end(), 0.0); }

const Route& Routes::between(int from, int to) {
  const bool samePod = topology_.podOf(from) == topology_.podOf(to);
  const int64_t key = ((int64_t{hosts_.classOf(from)} << 31) | hosts_.classOf(to)) * 2 + (samePod ? 1 : 0);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  Route made = route(topology_, way_, homes_, hosts_.left(from), hosts_.left(to), samePod);
  return known_.emplace(key, std::move(made)).first->second;
}

Wiring::Wiring(const Topology& topology, const Hosts& hosts, double fabric, double nvlinkBytesPerUs, bool everyNic)
    : topology_(topology), hosts_(hosts), apart_(static_cast<size_t>(hosts.count()), everyNic) {
  const int count = hosts.count();
  const int tors = topology.torsOfPod();
  const int pods = count == 0 ? 0 : topology.podOf(count - 1) + 1;
  const int links = nvlinkOf(count) + 2 * pods * tors;
  capacities_.resize(static_cast<size_t>(links));
  for (int host = 0; host < count; host++) {
    const auto whole = static_cast<size_t>(hostLink(host));
    for (int nic = 0; nic < topology.nics; nic++) {
      const double left = rate() * hosts.left(host)[static_cast<size_t>(nic)];
      capacities_[static_cast<size_t>(outOf(host, nic))] = capacities_[static_cast<size_t>(into(host, nic))] = left;
      capacities_[whole] += left;
      capacities_[whole + 1] += left;
    }
    capacities_[static_cast<size_t>(nvlinkOf(host))] = nvlinkBytesPerUs;
  }
  const int served = topology.pod > 0 ? topology.pod : topology.hosts;
  const double below = served * rate() * (topology.rail ? 1 : topology.nics);
  std::fill(capacities_.begin() + nvlinkOf(count), capacities_.end(), below / topology.oversubscription * fabric);
  sums_.resize(capacities_.size());
}

double Wiring::rate() const { return topology_.rateGbit * kBytesPerUsOfGbit; }

int Wiring::upOf(int host, size_t tor) const {
  return nvlinkOf(hosts_.count()) + 2 * (topology_.podOf(host) * topology_.torsOfPod() + static_cast<int>(tor));
}

bool Wiring::look(const std::vector<Edge>& edges, Routes& routes) {
  for (const Edge& edge : edges) {
    const Route& way = routes.between(edge.from, edge.to);
    if (!way.there) return false;
    if (way.plain) continue;
    apart_[static_cast<size_t>(edge.from)] = true;
    apart_[static_cast<size_t>(edge.to)] = true;
  }
  return true;
}

int Wiring::narrowOf(int from, int to, double most) {
  const auto [known, added] =
      narrow_.emplace(int64_t{from} * hosts_.count() + to, static_cast<int>(capacities_.size()));
  if (added) {
    capacities_.push_back(most * rate());
    sums_.push_back(0);
  }
  return known->second;
}

void Wiring::put(int link, double perByte) {
  if (perByte <= 0) return;
  double& sum = sums_[static_cast<size_t>(link)];
  if (sum == 0) touched_.push_back(link);
  sum += perByte;
}

void Wiring::side(int host, const std::vector<double>& shares, double perByte, int direction) {
  if (!apart_[static_cast<size_t>(host)]) return put(hostLink(host) + direction, perByte);
  for (size_t nic = 0; nic < shares.size(); nic++) {
    put(outOf(host, static_cast<int>(nic)) + direction, shares[nic] * perByte);
  }
}

std::vector<Use> Wiring::wire(const std::vector<Edge>& edges, Routes& routes, bool nvlink) {
  for (const Edge& edge : edges) {
    const Route& way = routes.between(edge.from, edge.to);
    side(edge.from, way.out, edge.perByte, 0);
    side(edge.to, way.in, edge.perByte, 1);
    for (size_t tor = 0; tor < way.up.size(); tor++) {
      put(upOf(edge.from, tor), way.up[tor] * edge.perByte);
      put(upOf(edge.to, tor) + 1, way.down[tor] * edge.perByte);
    }
    if (way.most > 0) put(narrowOf(edge.from, edge.to, way.most), edge.perByte);
    if (nvlink) put(nvlinkOf(edge.from), edge.perByte);
  }
  std::vector<Use> out;
  out.reserve(touched_.size());
  for (const int link : touched_) {
    out.push_back({link, sums_[static_cast<size_t>(link)]});
    sums_[static_cast<size_t>(link)] = 0;
  }
  touched_.clear();
  return out;
}

std::vector<double> Wiring::onNics(int host, int direction, const std::vector<double>& linkBytes) const {
  const int link = hostLink(host) + direction;
  const double whole = linkBytes[static_cast<size_t>(link)];
  const double sum = hosts_.sum(host);
  std::vector<double> out;
  for (int nic = 0; nic < topology_.nics; nic++) {
    const double even = sum > 0 ? whole * hosts_.left(host)[static_cast<size_t>(nic)] / sum : 0;
    const int own = outOf(host, nic) + direction;
    out.push_back(even + linkBytes[static_cast<size_t>(own)]);
  }
  return out;
}

Wiring::Bytes Wiring::byNic(const std::vector<double>& linkBytes) const {
  Bytes out;
  for (int host = 0; host < hosts_.count(); host++) {
    out.out.push_back(onNics(host, 0, linkBytes));
    out.in.push_back(onNics(host, 1, linkBytes));
  }
  return out;
}

}  // namespace r2cc::sim
