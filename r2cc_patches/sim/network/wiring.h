// Streams between hosts become tasks on links. A host whose NICs are all equally busy is one link each way, others are
// a link a NIC: the same rates with an eighth of the work.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/network/fabric.h"
#include "sim/streams.h"

namespace r2cc::sim {

/// What is left of every host's NICs. Hosts that are alike are of one class.
class Hosts {
 public:
  Hosts(const Topology& topology, int count);
  void set(int host, Left left);
  int count() const { return static_cast<int>(class_.size()); }
  const Left& left(int host) const { return lefts_[static_cast<size_t>(classOf(host))]; }
  int classOf(int host) const { return class_[static_cast<size_t>(host)]; }
  bool whole(int host) const { return classOf(host) == 0; }
  double sum(int host) const;

 private:
  std::vector<Left> lefts_;  // the whole one first
  std::vector<int> class_;
};

/// The ways of one kind between hosts, each looked for once. Both arguments must outlive it.
class Routes {
 public:
  Routes(const Topology& topology, const Hosts& hosts, Way way, std::vector<double> homes)
      : topology_(topology), hosts_(hosts), way_(way), homes_(std::move(homes)) {}
  const Route& between(int from, int to);

 private:
  const Topology& topology_;
  const Hosts& hosts_;
  Way way_;
  std::vector<double> homes_;
  std::unordered_map<int64_t, Route> known_;
};

class Wiring {
 public:
  /// `fabric`: what is left of ToRs' uplinks. `everyNic`: no host is one link.
  Wiring(const Topology& topology, const Hosts& hosts, double fabric, double nvlinkBytesPerUs, bool everyNic);

  /// Before anything is wired: finds hosts whose NICs are not equally busy. False: some edge has no way.
  bool look(const std::vector<Edge>& edges, Routes& routes);
  /// Through each host's NVLink goes what leaves it, if `nvlink`.
  std::vector<Use> wire(const std::vector<Edge>& edges, Routes& routes, bool nvlink);

  const std::vector<double>& capacities() const { return capacities_; }
  int outOf(int host, int nic) const { return 2 * (host * topology_.nics + nic); }
  int into(int host, int nic) const { return outOf(host, nic) + 1; }
  /// Of a whole NIC, bytes a microsecond.
  double rate() const;
  struct Bytes {
    std::vector<std::vector<double>> out, in;  // by host and NIC
  };
  Bytes byNic(const std::vector<double>& linkBytes) const;

 private:
  int hostLink(int host) const { return 2 * hosts_.count() * topology_.nics + 2 * host; }
  int nvlinkOf(int host) const { return hostLink(hosts_.count()) + host; }
  int upOf(int host, size_t tor) const;
  int narrowOf(int from, int to, double most);
  void put(int link, double perByte);
  void side(int host, const std::vector<double>& shares, double perByte, int direction);
  std::vector<double> onNics(int host, int direction, const std::vector<double>& linkBytes) const;

  const Topology& topology_;
  const Hosts& hosts_;
  std::vector<double> capacities_;
  std::vector<bool> apart_;   // hosts with a link a NIC
  std::vector<double> sums_;  // of the task that is wired, by link
  std::vector<int> touched_;
  std::unordered_map<int64_t, int> narrow_;  // from one host to another: a link of its own
};

}  // namespace r2cc::sim
