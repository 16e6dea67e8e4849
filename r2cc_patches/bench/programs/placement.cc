#include "bench/programs/placement.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "bench/errors.h"

namespace r2cc::bench {
namespace {

constexpr size_t kMostPlaced = 64;
constexpr int kSweeps = 24;
constexpr size_t kSteps = 60'000;
constexpr double kHeat = 0.05;     // of what the busiest NIC costs at first
constexpr double kSpreadCost = 2;  // as much as one NIC that sends and one that receives, both usually busy

template <class T>
T take(std::istream& in) {
  T value{};
  if (!(in >> value)) throw TransportError("a rank's placement of connections cannot be read", 0);
  return value;
}

// One connection and where it could be at home.
struct Wire {
  size_t from, to;  // hosts
  double bytes;
  int* nic;
  std::vector<int> choices;
  std::vector<double> weights;  // of what is spread, by NIC
};

class Placement {
 public:
  Placement(const std::vector<RankNics>& ranks, bool balances) : balances_(balances) {
    std::map<std::string, size_t> hosts;
    for (const RankNics& rank : ranks) {
      nics_ = std::max(nics_, rank.capacities.size());
      hostOf_.push_back(hosts.try_emplace(rank.host, hosts.size()).first->second);
    }
    capacities_.assign(hosts.size() * nics_, 0.0);
    for (size_t rank = 0; rank < ranks.size(); rank++) {
      std::copy(ranks[rank].capacities.begin(), ranks[rank].capacities.end(),
                capacities_.begin() + static_cast<ptrdiff_t>(hostOf_[rank] * nics_));
    }
    loads_.assign(capacities_.size() * 2, 0.0);
  }

  void add(FlowPlan& flow) {
    const std::vector<uint64_t> bytes = bytesOf(flow.sequence);
    for (size_t edge = 0; edge < bytes.size(); edge++) {
      const size_t from = hostOf_[static_cast<size_t>(flow.sequence.edges[edge].from)];
      const size_t to = hostOf_[static_cast<size_t>(flow.sequence.edges[edge].to)];
      if (from == to) continue;
      wires_.push_back({from, to, static_cast<double>(bytes[edge]), &flow.nics[edge], {}, {}});
      offer(wires_.back());
    }
  }

  // Always the one whose second choice is the worst beside its first; then single moves and exchanges while they help.
  void run() {
    const double total = std::accumulate(wires_.begin(), wires_.end(), 0.0,
                                         [](double sum, const Wire& wire) { return sum + wire.bytes; });
    scale_ = total > 0 ? static_cast<double>(capacities_.size()) / total : 1;
    for (size_t placed = 0; placed < wires_.size(); placed++) {
      size_t next = placed;
      double most = -1;
      for (size_t i = placed; i < wires_.size(); i++) {
        const double regret = regretOf(wires_[i]);
        if (regret > most) most = regret, next = i;
      }
      std::swap(wires_[placed], wires_[next]);
      place(wires_[placed], false);
    }
    anneal();
    for (int sweep = 0; sweep < kSweeps && improve(); sweep++) {
    }
  }

  std::vector<NicLoad> loadsOf(size_t rank) const {
    std::vector<NicLoad> loads;
    for (size_t nic = 0; nic < nics_; nic++) {
      const size_t at = (hostOf_[rank] * nics_ + nic) * 2;
      loads.push_back({loads_[at], loads_[at + 1]});
    }
    return loads;
  }

 private:
  double usable(const Wire& wire, size_t nic) const {
    return std::min(capacities_[wire.from * nics_ + nic], capacities_[wire.to * nics_ + nic]);
  }

  void offer(Wire& wire) const {
    double sum = 0;
    int lost = -1;
    for (size_t nic = 0; nic < nics_; nic++) {
      wire.weights.push_back(usable(wire, nic));
      sum += wire.weights.back();
      if (wire.weights.back() > 0) wire.choices.push_back(static_cast<int>(nic));
      if (wire.weights.back() <= 0) lost = static_cast<int>(nic);
    }
    for (double& weight : wire.weights) weight /= sum > 0 ? sum : 1;
    if (lost >= 0 && (balances_ || wire.choices.empty())) wire.choices.push_back(lost);
  }

  // Sum over all NICs of how long they are busy, to the eighth power: the busiest count.
  double costOf(size_t at) const {
    const double capacity = capacities_[at / 2];
    if (capacity <= 0) return 0;
    const double busy = loads_[at] * scale_ / capacity;
    const double square = busy * busy;
    return square * square * square * square;
  }

  // Puts it there (or takes it away), and returns what that adds to the cost. As many are spread as evenness needs and
  // no more: NCCL has few connections at home on a NIC that is lost, and where all of them use all NICs, these wait
  // for one another (4 hosts x 8 NICs, balance: 1.57 of healthy, bound 1.143).
  double shift(const Wire& wire, int home, double sign) {
    const bool spread = usable(wire, static_cast<size_t>(home)) <= 0;
    double added = spread ? sign * kSpreadCost * wire.bytes * scale_ : 0;
    for (size_t nic = 0; nic < nics_; nic++) {
      const double part = spread ? wire.weights[nic] : static_cast<int>(nic) == home ? 1.0 : 0.0;
      if (part <= 0) continue;
      for (const size_t at : {(wire.from * nics_ + nic) * 2, (wire.to * nics_ + nic) * 2 + 1}) {
        added -= costOf(at);
        loads_[at] += sign * part * wire.bytes;
        added += costOf(at);
      }
    }
    return added;
  }

  double costAt(const Wire& wire, int choice) {
    const double cost = shift(wire, choice, 1);
    shift(wire, choice, -1);
    return cost;
  }

  double regretOf(const Wire& wire) {
    std::vector<double> costs;
    costs.reserve(wire.choices.size());
    for (const int choice : wire.choices) costs.push_back(costAt(wire, choice));
    if (costs.size() < 2) return 1e300;
    std::partial_sort(costs.begin(), costs.begin() + 2, costs.end());
    return costs[1] - costs[0];
  }

  // Moves at random, at first also some that make it worse. The random numbers are always the same.
  void anneal() {
    std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): equal plans are placed alike
    const auto upTo = [&random](size_t most) { return random() % most; };
    double worst = 0;
    for (size_t at = 0; at < loads_.size(); at++) worst = std::max(worst, costOf(at));
    const size_t steps = wires_.empty() ? 0 : kSteps;
    for (size_t step = 0; step < steps; step++) {
      const double heat = worst * kHeat * (1 - static_cast<double>(step) / static_cast<double>(steps));
      Wire& wire = wires_[upTo(wires_.size())];
      const int before = *wire.nic;
      const int choice = wire.choices[upTo(wire.choices.size())];
      if (choice == before) continue;
      const double change = shift(wire, before, -1) + shift(wire, choice, 1);
      const double luck = (random() + 1.0) / 4294967296.0;
      if (change <= 0 || change < -heat * std::log(luck)) {
        *wire.nic = choice;
      } else {
        shift(wire, choice, -1);
        shift(wire, before, 1);
      }
    }
  }

  bool improve() {
    bool moved = false;
    for (Wire& wire : wires_) moved |= place(wire, true);
    return moved;
  }

  bool place(const Wire& wire, bool placed) {
    const int before = *wire.nic;
    if (placed) shift(wire, before, -1);
    int best = placed ? before : wire.choices.front();
    double least = costAt(wire, best);
    for (const int choice : wire.choices) {
      const double cost = costAt(wire, choice);
      if (cost < least - 1e-9 * std::abs(least)) least = cost, best = choice;
    }
    shift(wire, best, 1);
    *wire.nic = best;
    return placed && best != before;
  }

  bool balances_;
  size_t nics_ = 1;
  double scale_ = 1;
  std::vector<size_t> hostOf_;      // by rank
  std::vector<double> capacities_;  // by host and NIC
  std::vector<double> loads_;       // by host, NIC and direction (out, in)
  std::vector<Wire> wires_;
};

}  // namespace

std::vector<std::vector<NicLoad>> placeNics(std::vector<FlowPlan>& flows, const std::vector<RankNics>& ranks,
                                            bool balances) {
  Placement placement(ranks, balances);
  for (FlowPlan& flow : flows) placement.add(flow);
  placement.run();
  std::vector<std::vector<NicLoad>> loads;
  loads.reserve(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); rank++) loads.push_back(placement.loadsOf(rank));
  return loads;
}

std::vector<std::string> align(std::vector<RankNics>& ranks) {
  std::set<std::string> all;
  for (const RankNics& rank : ranks) all.insert(rank.names.begin(), rank.names.end());
  const std::vector<std::string> names(all.begin(), all.end());
  for (RankNics& rank : ranks) {
    std::vector<double> capacities(names.size(), 0.0), rates(names.size(), 0.0);
    rank.rates.resize(rank.names.size(), 0.0);
    for (size_t nic = 0; nic < rank.names.size(); nic++) {
      const auto at = std::lower_bound(names.begin(), names.end(), rank.names[nic]) - names.begin();
      capacities[static_cast<size_t>(at)] = rank.capacities[nic];
      rates[static_cast<size_t>(at)] = rank.rates[nic];
    }
    rank.capacities = std::move(capacities);
    rank.rates = std::move(rates);
    rank.names = names;
  }
  return names;
}

std::vector<double> capacitiesAt(const RankNics& nics, const std::vector<std::string>& names, const Options& options,
                                 int64_t iteration) {
  std::vector<double> capacities;
  for (const std::string& name : names) {
    const auto found = std::find(nics.names.begin(), nics.names.end(), name);
    double capacity = found == nics.names.end() ? 0 : nics.capacities[static_cast<size_t>(found - nics.names.begin())];
    for (const Pretence& pretence : options.pretended) {
      const bool holds = pretence.rank == options.rank && pretence.nic == name && pretence.iteration <= iteration;
      if (holds) capacity = pretence.percent / 100.0;
    }
    capacities.push_back(capacity);
  }
  return capacities;
}

std::string textOf(const RankNics& nics) {
  std::ostringstream out;
  out << std::setprecision(17) << nics.host << '\n' << nics.capacities.size();
  for (const double capacity : nics.capacities) out << ' ' << capacity;
  for (const std::string& name : nics.names) out << ' ' << name;
  for (size_t nic = 0; nic < nics.names.size(); nic++) out << ' ' << (nic < nics.rates.size() ? nics.rates[nic] : 0);
  return out.str();
}

RankNics nicsFrom(const std::string& text) {
  std::istringstream in(text);
  RankNics nics;
  std::getline(in, nics.host);
  nics.capacities.resize(std::min<size_t>(take<size_t>(in), kMostPlaced));
  for (double& capacity : nics.capacities) capacity = take<double>(in);
  nics.names.resize(nics.capacities.size());
  for (std::string& name : nics.names) name = take<std::string>(in);
  nics.rates.resize(nics.names.size());
  for (double& rate : nics.rates) rate = take<double>(in);
  return nics;
}

std::string textOf(const std::vector<FlowPlan>& flows, const std::vector<std::vector<NicLoad>>& loads) {
  std::ostringstream out;
  out << std::setprecision(17);
  for (const FlowPlan& flow : flows) {
    for (const int nic : flow.nics) out << nic << ' ';
  }
  for (const std::vector<NicLoad>& rank : loads) {
    out << rank.size() << ' ';
    for (const NicLoad& nic : rank) out << nic.tx << ' ' << nic.rx << ' ';
  }
  return out.str();
}

std::vector<NicLoad> takePlacement(const std::string& text, std::vector<FlowPlan>& flows, int rank) {
  std::istringstream in(text);
  for (FlowPlan& flow : flows) {
    for (int& nic : flow.nics) nic = take<int>(in);
  }
  std::vector<NicLoad> loads;
  for (int i = 0; i <= rank; i++) {
    loads.resize(std::min<size_t>(take<size_t>(in), kMostPlaced));
    for (NicLoad& nic : loads) nic = {take<double>(in), take<double>(in)};
  }
  return loads;
}

}  // namespace r2cc::bench
