// How near two NICs of this host are to each other: from sysfs, or from the file that R2CC_TOPO_FILE names where the
// machine cannot show it (the lab's hosts all run on one machine, and their NICs hang on no bus).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace r2cc {

/// Smaller is nearer.
enum : int {
  kSameSwitch = 0,  // one card, or under one PCI switch
  kSameNode = 1,    // one NUMA node
  kFarAway = 2,     // neither, or nobody knows
};

/// What is known of a NIC's place. Unknown parts match nothing.
struct Place {
  int numa = -1;
  std::string switchName;  // file: the name given; sysfs: the PCI bridge next to the root
  std::string root;        // sysfs: the PCI root complex
  double rateGbit = 0;     // file only
};

/// The contents of R2CC_TOPO_FILE: places by host and NIC.
using Places = std::map<std::string, std::map<std::string, Place>>;
/// Throws JsonError naming file and line.
Places readPlaces(const std::string& path);

/// A NIC as its transport names it; `pciPath` as in ncclNetProperties_t, empty where there is none.
struct NicName {
  std::string name;
  std::string pciPath;
};

/// "0000:18:00.1", a part of a path in sysfs.
bool isPciAddress(const std::string& part);
/// Without links; empty where there is nothing.
std::string realPath(const std::string& path);

class Distances {
 public:
  using Warn = std::function<void(const std::string&)>;
  Distances() = default;
  /// NICs are numbered as in `nics`. `file`: empty for none; one that cannot be used is warned of once and is as none.
  /// `host`: our name in it. `root` stands before every path of sysfs, for tests.
  Distances(const std::vector<NicName>& nics, const std::string& file, const std::string& host, const Warn& warn,
            const std::string& root = "");
  /// kSameSwitch, kSameNode or kFarAway; NICs that do not exist are far away.
  int distance(size_t a, size_t b) const;
  const Place& place(size_t nic) const { return places_.at(nic); }
  bool fromFile() const { return fromFile_; }
  /// For the log: "eth0 eth1 0, eth0 eth2 2, ...".
  std::string describe() const;

 private:
  bool useFile(const std::string& file, const std::string& host, const Warn& warn);

  std::vector<NicName> nics_;
  std::vector<Place> places_;
  bool fromFile_ = false;
};

/// This machine's name, as it stands in R2CC_TOPO_FILE.
std::string hostName();

}  // namespace r2cc
