#include "planner/cost/nccl_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "planner/cost/formulas.h"
#include "planner/cost/model.h"
#include "planner/shapes/tree.h"

namespace r2cc::planner {
namespace {

constexpr int kProtocols = 3;  // LL, LL128, Simple
constexpr int kLL = 0, kLL128 = 1, kSimple = 2;
using Three = std::array<double, kProtocols>;

constexpr std::array<const char*, kProtocols> kNames{"ll", "ll128", "simple"};
constexpr Three kWire{2, 128.0 / 120, 1};  // flags beside the data
constexpr Three kTreeBase{6.8, 14, 8.4}, kRingBase{6.6, 14, 8.4};
constexpr Three kTreeNvlink{0.6, 1.25, 4}, kTreePci{1, 1.9, 4}, kTreeNet{5, 8.5, 14};
constexpr Three kRingNvlink{0.6, 1.9, 3.4}, kRingPci{1, 2.5, 5.7}, kRingNet{2.7, 4, 14};
constexpr double kNvlsLocal = 25, kNvlsTreeNet = 20.9;
constexpr double kOverheadUs = 1, kSimpleOverheads = 3;
constexpr double kLLMostGBps = 20.4;
constexpr double kPlateau = 1.4, kPlateauBytes = 64;
constexpr double kSocketRankGBps = 1.7, kSocketRankChunkUs = 6.5;  // four H200 (docs/results/schedules.md)

struct PerChannel {
  double ringLL128, treeLL128, tree, nvlsTree, nvlsShare;
};
constexpr PerChannel kVolta{20, 20, 10, 0, 0}, kAmpere{20, 20, 17.8, 0, 0}, kHopper{36.7, 29, 36, 45.5, 0.85},
    kBlackwell{40, 20, 24, 80, 0.74};

const PerChannel& most(Gpu gpu) {
  if (gpu == Gpu::Volta) return kVolta;
  if (gpu == Gpu::Ampere) return kAmpere;
  return gpu == Gpu::Hopper ? kHopper : kBlackwell;
}

/// What trees reach of their bandwidth at 2^6, 2^7, ... bytes.
constexpr size_t kFirstPower = 6, kCorrected = 23;
constexpr std::array<std::array<double, kCorrected>, kProtocols> kTreeReaches{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

double reached(int protocol, size_t power) {
  if (power < kFirstPower || power >= kFirstPower + kCorrected) return 1;
  return kTreeReaches[static_cast<size_t>(protocol)][power - kFirstPower];
}

int floorLog2(int value) {
  int log = 0;
  while (value > 1) value /= 2, log++;
  return log;
}

/// What does not depend on the size: as NCCL's table has it, and as it was measured.
struct Latency {
  double table = 0, measured = 0;
};

/// `base`, `net`, `local`: the table's of a protocol; `simple`: of protocol Simple, which is what is measured.
struct Hops {
  double between = 0, inside = 0;
  Latency latency(const AlgorithmCost& cost, const Three& base, const Three& net, const Three& local, size_t p) const {
    const auto scaled = [p](double measured, const Three& table) {
      return measured < 0 ? table[p] : table[p] * measured / table[kSimple];
    };
    return {base[p] + between * net[p] + inside * local[p],
            scaled(cost.baseUs, base) + between * scaled(cost.hopUs, net) + inside * scaled(cost.localHopUs, local)};
  }
};

const AlgorithmCost& costOf(const NcclMachine& machine, Algorithm algorithm) {
  if (algorithm == Algorithm::Ring) return machine.ring;
  return algorithm == Algorithm::Tree ? machine.tree : machine.nvlsTree;
}

Latency latencyOf(const NcclMachine& machine, Algorithm algorithm, size_t p, int nodes, int ranks) {
  const AlgorithmCost& cost = costOf(machine, algorithm);
  if (algorithm == Algorithm::NvlsTree) {
    constexpr Three kBase{0, 0, kNvlsLocal}, kNet{0, 0, kNvlsTreeNet};
    return Hops{2.0 * floorLog2(nodes), 0}.latency(cost, kBase, kNet, kTreeNvlink, kSimple);
  }
  if (algorithm == Algorithm::Tree) {
    const double perNode = std::floor(static_cast<double>(ranks) / nodes);
    const Hops hops{2.0 * floorLog2(nodes), 2 * (perNode - 1)};
    return hops.latency(cost, kTreeBase, kTreeNet, machine.nvlink ? kTreeNvlink : kTreePci, p);
  }
  Three local = machine.nvlink ? kRingNvlink : kRingPci;
  local[p] = std::max(local[p], kOverheadUs * (p == kSimple ? kSimpleOverheads : 1));
  const int steps = 2 * (ranks - 1), between = 2 * (nodes - 1);
  const Hops hops{static_cast<double>(between), static_cast<double>(steps - between)};
  return hops.latency(cost, kRingBase, ranks == nodes ? kTreeNet : kRingNet, local, p);
}

/// One machine's table. Bandwidths are NCCL's: of the bus, in GB/s, of all channels.
struct Table {
  const NcclMachine& machine;
  int nodes, ranks;
  double busGBps;

  double channels() const { return machine.channels; }

  /// `latencies` is the table's share of `latency.table` at 2^power bytes, `band` what bytes take there.
  template <typename Latencies, typename Band>
  static Rival rival(const std::string& name, Flow flow, double wire, const Latency& latency, double efficiency,
                     Latencies latencies, Band band) {
    Rival out{name, flow, wire, latency.measured, {}, {}, efficiency};
    const bool measured = latency.measured != latency.table || efficiency != 1;
    for (size_t power = 0; power <= kLargestPower; power++) {
      out.us.push_back(latency.table * latencies(power) + band(power));
      if (measured) out.takes.push_back(latency.measured * latencies(power) + band(power) / efficiency);
    }
    return out;
  }
  static double once(size_t /*power*/) { return 1; }

  Rival ring(int protocol) const {
    const auto p = static_cast<size_t>(protocol);
    double bus = busGBps;
    if (protocol == kLL) bus = std::min(kLLMostGBps, bus / 2);
    if (protocol == kLL128) bus = std::min(bus * 0.92, channels() * most(machine.gpu).ringLL128);
    const int steps = 2 * (ranks - 1);
    const Latency latency = latencyOf(machine, Algorithm::Ring, p, nodes, ranks);
    const double bytesPerUs = bus * ranks / steps * kBytesPerUsOfGBps;
    const auto latencies = [&](size_t power) {
      const double bytes = std::ldexp(1.0, static_cast<int>(power));
      const bool plateau = protocol == kSimple && std::floor(bytes / (channels() * ranks)) >= kPlateauBytes;
      return plateau ? kPlateau : 1.0;
    };
    return rival(std::string("ring/") + kNames[p], Flow::Ring, kWire[p], latency, machine.ring.efficiency, latencies,
                 [&](size_t power) { return std::ldexp(1.0, static_cast<int>(power)) / bytesPerUs; });
  }

  Rival tree(int protocol) const {
    const auto p = static_cast<size_t>(protocol);
    double bus = std::min(busGBps * 0.92, channels() * most(machine.gpu).tree);
    if (protocol == kLL) bus = std::min(bus / 3.8, kLLMostGBps);
    if (protocol == kLL128) bus = std::min(bus * 120 / 128, channels() * most(machine.gpu).treeLL128);
    const Latency latency = latencyOf(machine, Algorithm::Tree, p, nodes, ranks);
    return rival(std::string("tree/") + kNames[p], Flow::Tree, kWire[p], latency, machine.tree.efficiency, once,
                 [&](size_t power) {
                   const double bytesPerUs = bus / 2 * kBytesPerUsOfGBps * reached(protocol, power);
                   return std::ldexp(1.0, static_cast<int>(power)) / bytesPerUs;
                 });
  }

  Rival nvlsTree() const {
    const PerChannel& limit = most(machine.gpu);
    const double local = machine.localGBps / channels() * limit.nvlsShare * (channels() - 1) / channels() * 2;
    const double bus = channels() * std::min({local, busGBps / channels(), limit.nvlsTree});
    const Latency latency = latencyOf(machine, Algorithm::NvlsTree, kSimple, nodes, ranks);
    const double bytesPerUs = bus * ranks / (2.0 * (ranks - 1)) * kBytesPerUsOfGBps;
    return rival("nvlstree/simple", Flow::Tree, 1, latency, machine.nvlsTree.efficiency, once,
                 [&](size_t power) { return std::ldexp(1.0, static_cast<int>(power)) / bytesPerUs; });
  }
};

struct Flowing {
  std::vector<double> loads;                    // of each node, out and as much in
  std::map<std::pair<int, int>, double> edges;  // what one node sends another
};

/// In messages; of an AllGather what a rank ends with, of a ReduceScatter what it begins with.
Flowing flowing(const Rival& rival, const Cluster& cluster, const std::string& op) {
  const int nodes = cluster.nodes();
  Flowing out{std::vector<double>(static_cast<size_t>(nodes), 0), {}};
  if (rival.flow == Flow::Tree) {
    const std::vector<double> loads = treeLoads(nodes);
    const auto at = [&](int slot) { return rival.slots.empty() ? slot : rival.slots[static_cast<size_t>(slot)]; };
    for (int slot = 0; slot < nodes; slot++) {
      out.loads[static_cast<size_t>(at(slot))] = loads[static_cast<size_t>(slot)];
    }
    for (const auto& [parent, child] : treeEdges(nodes)) {
      out.edges[{at(parent), at(child)}] += 0.5;
      out.edges[{at(child), at(parent)}] += 0.5;
    }
  } else if (rival.flow == Flow::Ring) {
    const double load = ringLoad(cluster.ranks()) * ringUse(op, cluster).load;
    std::fill(out.loads.begin(), out.loads.end(), load);
    for (int node = 0; node < nodes; node++) out.edges[{node, (node + 1) % nodes}] = load;
  } else {
    for (int node = 0; node < nodes; node++) {
      const double own = static_cast<double>(cluster.ranksOf(node).size()) / cluster.ranks();
      out.loads[static_cast<size_t>(node)] = op == "allreduce" ? 1 : 1 - own;
    }
  }
  return out;
}

}  // namespace

std::vector<std::pair<int, int>> treeEdges(int nodes) {
  std::vector<std::pair<int, int>> edges;
  for (int node = 1; node < nodes; node++) {
    const int parent = treeParent(nodes, node);
    // The second tree is the first mirrored, or shifted by one where there is an odd number of nodes.
    const auto other = [&](int place) { return nodes % 2 == 0 ? nodes - 1 - place : (place + 1) % nodes; };
    edges.emplace_back(parent, node);
    edges.emplace_back(other(parent), other(node));
  }
  return edges;
}

std::vector<double> treeLoads(int nodes) {
  std::vector<double> loads(static_cast<size_t>(nodes), 0);
  for (const auto& [parent, child] : treeEdges(nodes)) {
    loads[static_cast<size_t>(parent)] += 0.5;
    loads[static_cast<size_t>(child)] += 0.5;
  }
  return loads;
}

double treeChannelGBps(Gpu gpu) { return most(gpu).tree / 2; }

Cost ncclCost(const NcclMachine& machine) {
  const auto known = [](double measured, double table) { return measured < 0 ? table : measured; };
  Cost cost;
  cost.baseUs = known(machine.tree.baseUs, kTreeBase[kSimple]);
  cost.hopUs = known(machine.tree.hopUs, kTreeNet[kSimple]);
  cost.localHopUs = known(machine.tree.localHopUs, (machine.nvlink ? kTreeNvlink : kTreePci)[kSimple]);
  cost.channelGBps = treeChannelGBps(machine.gpu);
  cost.localGBps = machine.localGBps;
  return cost;
}

void throughSockets(Cost& cost) {
  if (cost.rankGBps > 0) return;
  cost.rankGBps = kSocketRankGBps;
  cost.rankChunkUs = kSocketRankChunkUs;
}

void asMeasured(Rival& rival, Algorithm algorithm, int protocol, const NcclMachine& machine, int nodes, int ranks) {
  const Latency latency = latencyOf(machine, algorithm, static_cast<size_t>(protocol), nodes, ranks);
  const double longer = latency.table > 0 ? latency.measured / latency.table : 1;
  rival.efficiency = costOf(machine, algorithm).efficiency;
  rival.takes.clear();
  for (const double us : rival.us) {
    const double hops = std::min(us, rival.latencyUs);
    rival.takes.push_back(hops * longer + (us - hops) / rival.efficiency);
  }
  rival.latencyUs *= longer;
}

double ringReaches(const Request& request) {
  double least = request.nccl ? request.nccl->ring.efficiency : 1;
  for (const Rival& rival : request.rivals) {
    if (rival.flow == Flow::Ring) least = std::min(least, rival.efficiency);
  }
  return least;
}

std::vector<Rival> rivalsOf(const NcclMachine& machine, const Cluster& cluster) {
  const Table table{machine, cluster.nodes(), cluster.ranks(), cluster.healthySlowest() / kBytesPerUsOfGBps};
  std::vector<Rival> out;
  out.reserve(2 * kProtocols + 1);
  for (int protocol = 0; protocol < kProtocols; protocol++) out.push_back(table.ring(protocol));
  for (int protocol = 0; protocol < kProtocols; protocol++) out.push_back(table.tree(protocol));
  const bool nvls = machine.nvls && most(machine.gpu).nvlsTree > 0 && machine.channels > 1 && machine.localGBps > 0;
  if (nvls && cluster.ranks() > cluster.nodes()) out.push_back(table.nvlsTree());
  return out;
}

Rivals::Rivals(const std::vector<Rival>& rivals, const Cluster& cluster, const std::string& op, const Cost& cost) {
  const double rankUsPerByte = cost.rankGBps > 0 ? 1 / (cost.rankGBps * kBytesPerUsOfGBps) : 0;
  for (const Rival& rival : rivals) {
    Known known{rival};
    const Flowing flow = flowing(rival, cluster, op);
    for (const auto& [ends, load] : flow.edges) {
      const double both = cluster.exchange(ends.first, ends.second);
      known.usPerByte = std::max(known.usPerByte, load * rival.wire / rival.efficiency / both);
    }
    for (int node = 0; node < cluster.nodes(); node++) {
      const double load = flow.loads[static_cast<size_t>(node)] * rival.wire / rival.efficiency;
      known.usPerByte = std::max(known.usPerByte, load / cluster.bandwidth(node));
      known.wholeUsPerByte = std::max(known.wholeUsPerByte, load / cluster.healthySlowest());
      const auto ranks = static_cast<double>(cluster.ranksOf(node).size());
      const double us = flow.loads[static_cast<size_t>(node)] * rival.wire * rankUsPerByte / ranks;
      known.usPerByte = std::max(known.usPerByte, us);
      known.rankUsPerByte = std::max(known.rankUsPerByte, us);
    }
    rivals_.push_back(std::move(known));
  }
}

/// Between two powers of two along a straight line.
static double at(const std::vector<double>& us, double bytes) {
  if (us.empty()) return 0;
  const int power = std::clamp(std::ilogb(std::max(bytes, 1.0)), 0, static_cast<int>(us.size()) - 1);
  const auto low = static_cast<size_t>(power);
  if (low + 1 == us.size()) return us[low];
  const double from = std::ldexp(1.0, power);
  return us[low] + (us[low + 1] - us[low]) * (std::max(bytes, 1.0) - from) / from;
}

double Rivals::tableUs(const Rival& rival, double bytes) { return at(rival.us, bytes); }
double Rivals::takesUs(const Rival& rival, double bytes) {
  return at(rival.takes.empty() ? rival.us : rival.takes, bytes);
}

/// The fastest on whole NICs, which is all that NCCL's table knows of. Where it is not known: the fastest as it turns
/// out.
size_t Rivals::chosen(double bytes) const {
  size_t best = 0;
  const auto worth = [&](size_t which) {
    return rivals_[which].rival.us.empty() ? balancedUs(which, bytes) : tableUs(rivals_[which].rival, bytes);
  };
  for (size_t i = 1; i < rivals_.size(); i++) {
    if (worth(i) < worth(best)) best = i;
  }
  return best;
}

static bool isRingSimple(const Rival& rival) { return rival.flow == Flow::Ring && rival.wire == 1; }

double Rivals::ringUs(double bytes) const {
  double most = 0;
  for (const Known& known : rivals_) {
    if (isRingSimple(known.rival)) most = std::max(most, takesUs(known.rival, bytes));
  }
  return most;
}

double Rivals::ringLatencyUs() const {
  double most = 0;
  for (const Known& known : rivals_) {
    if (isRingSimple(known.rival)) most = std::max(most, known.rival.latencyUs);
  }
  return most;
}

double Rivals::chosenUs(double bytes) const { return balancedUs(chosen(bytes), bytes); }

double Rivals::balancedUs(size_t which, double bytes) const {
  const Known& known = rivals_[which];
  return std::max(takesUs(known.rival, bytes), known.rival.latencyUs + known.usPerByte * bytes);
}

double Rivals::healthyUs(size_t which, double bytes, double slower) const {
  const Known& known = rivals_[which];
  const double usPerByte = std::max(known.wholeUsPerByte * slower, known.rankUsPerByte);
  return std::max(takesUs(known.rival, bytes), known.rival.latencyUs + usPerByte * bytes);
}

Baseline Rivals::baseline(size_t which, double bytes) const {
  return {rivals_[which].rival.name, healthyUs(which, bytes), balancedUs(which, bytes), std::nullopt};
}

}  // namespace r2cc::planner
