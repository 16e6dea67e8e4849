#include "sim/solve.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "planner/cost/cluster.h"
#include "planner/cost/model.h"
#include "planner/cost/nccl_table.h"

namespace r2cc::sim {
namespace {

using planner::Schedule;

constexpr const char* kRing = "ring";  // one, whatever NCCL would choose
constexpr int kFewestHosts = 3;        // NCCL's table here is that of three and more
constexpr std::array<Arm, 13> kArms{{{"stock", Schedule::Ring, Way::Home, Manner::Waits},
                                     {"upstream", Schedule::Ring, Way::Home, Manner::FailsOver},
                                     {"kv_replication", Schedule::Ring, Way::Home, Manner::Waits},
                                     {"migrate", Schedule::Ring, Way::Backup, Manner::Migrates},
                                     {"balance", Schedule::Ring, Way::Balanced, Manner::Migrates},
                                     {"exclusion", Schedule::Ring, Way::Balanced, Manner::Excludes},
                                     {"allreduce", Schedule::Auto, Way::Balanced, Manner::Migrates},
                                     {"optcc", Schedule::OptCC, Way::Balanced, Manner::Migrates},
                                     {"published", Schedule::Published, Way::Balanced, Manner::Migrates},
                                     {"chain", Schedule::Chain, Way::Balanced, Manner::Migrates},
                                     {"chain_fixed", Schedule::ChainFixed, Way::Balanced, Manner::Migrates},
                                     {"tree", Schedule::Tree, Way::Balanced, Manner::Migrates},
                                     {kRing, Schedule::Ring, Way::Balanced, Manner::Migrates}}};
constexpr double kLeastLeft = 1e-6;  // of a host's NICs: less is nothing, as for the planner

Hosts hostsOf(const Topology& topology, const State& state) {
  Hosts out(topology, state.hosts);
  for (const auto& [host, left] : state.left) out.set(host, left);
  return out;
}

/// The tasks of one question on one state.
class Collective {
 public:
  Collective(const Question& question, const State& state, const Running& running)
      : question_(question),
        running_(running),
        wiring_(question.topology, running.hosts(), state.fabric, nvlinkBytesPerUs(question), false) {
    const bool balanced = running.arm().way == Way::Balanced;
    copies_ = balanced ? 1 : question.groups;
    const Way way = balanced && !question.cost.evenRails ? Way::Roomy : running.arm().way;
    for (int group = 0; group < copies_; group++) {
      routes_.emplace_back(question.topology, running.hosts(), way, homesOf(group, copies_, question.topology.nics));
    }
  }

  /// False: something does not get where it should.
  bool wire() {
    for (const Stream& stream : running_.streams()) {
      for (Routes& routes : routes_) {
        if (!wiring_.look(stream.edges, routes)) return false;
      }
    }
    const size_t count = running_.streams().size();
    for (size_t group = 0; group < routes_.size(); group++) {
      for (const Stream& stream : running_.streams()) add(stream, routes_[group], static_cast<int>(group * count));
    }
    fluid_.capacities = wiring_.capacities();
    return true;
  }

  Flowed flow() const { return sim::flow(fluid_); }
  Wiring::Bytes byNic(const Flowed& flowed) const { return wiring_.byNic(flowed.linkBytes); }

 private:
  void add(const Stream& stream, Routes& routes, int first) {
    Task task;
    const double groups = copies_ == 1 ? question_.groups : 1;
    task.bytes = stream.share * static_cast<double>(question_.bytes) * groups;
    task.weight = stream.share;
    task.overhead = stream.overhead;
    task.uses = wiring_.wire(stream.edges, routes, question_.ranksPerNode > 1);
    for (const int before : stream.after) task.after.push_back(first + before);
    if (task.uses.empty()) task.bytes = 0;
    fluid_.tasks.push_back(std::move(task));
  }

  const Question& question_;
  const Running& running_;
  Wiring wiring_;
  int copies_ = 1;
  std::vector<Routes> routes_;
  Fluid fluid_;
};

}  // namespace

const Arm* armOf(const std::string& name) {
  const auto* found = std::find_if(kArms.begin(), kArms.end(), [&](const Arm& arm) { return name == arm.name; });
  return found == kArms.end() ? nullptr : found;
}

std::string armNames() {
  std::string out;
  for (const Arm& arm : kArms) out += (out.empty() ? "" : ", ") + std::string(arm.name);
  return out;
}

std::vector<double> homesOf(int group, int groups, int nics) {
  std::vector<double> out(static_cast<size_t>(nics), 0);
  const int first = groups <= nics ? group * nics / groups : group % nics;
  const int last = groups <= nics ? (group + 1) * nics / groups : first + 1;
  for (int nic = first; nic < last; nic++) out[static_cast<size_t>(nic)] = 1.0 / (last - first);
  return out;
}

double nvlinkBytesPerUs(const Question& question) {
  return question.topology.nvlinkGBps * 1000 * std::max(1, question.groups);
}

Running::Running(const Question& question, const State& state)
    : question_(question), arm_(*armOf(question.arm)), hosts_(hostsOf(question.topology, state)) {
  for (int host = 0; host < hosts_.count(); host++) {
    if (hosts_.sum(host) <= kLeastLeft * question.topology.nics) possible_ = false;
  }
  if (!possible_) return;
  const bool asLeft = arm_.way == Way::Balanced;
  const planner::Request wanted = request(!asLeft);
  plan_ = planner::plan(wanted);
  boundUs_ = plan_.boundUs;
  if (!asLeft && !state.left.empty()) {
    const planner::Request left = request(false);
    boundUs_ = planner::boundUs(planner::Cluster(left), question.op, static_cast<double>(question.bytes));
  }
  if (question.pieces > 0) cutInto(question.pieces);
  const double factor = planner::ringUse(question.op, state.hosts * question.ranksPerNode, question.ranksPerNode).load;
  streams_ = streamsOf(plan_, question.cost, question.ranksPerNode, factor);
  name_ = planner::name(plan_.schedule);
  if (asNccl()) takeWhatNcclTakes();
}

/// No schedule of ours runs, so an all-reduce runs as NCCL chooses.
bool Running::asNccl() const {
  return question_.nccl && question_.op == "allreduce" && hosts_.count() >= kFewestHosts &&
         std::string_view(arm_.name) != kRing && plan_.schedule != planner::Schedule::Reranked &&
         plan_.parts.size() == 1 && plan_.parts.front().kind == planner::Kind::Ring;
}

/// NCCL builds its trees whatever is broken, and nearly every place in them has two messages to carry. So a host that
/// lost something is taken to stand where that costs most.
int Running::rotation(const std::vector<double>& loads) const {
  constexpr int kMostTried = 64;
  const int count = hosts_.count();
  int best = 0;
  double most = -1;
  for (int by = 0; by < std::min(count, kMostTried); by++) {
    double slowest = 0;
    for (int host = 0; host < count; host++) {
      const double left = hosts_.sum(host);
      if (left < question_.topology.nics)
        slowest = std::max(slowest, loads[static_cast<size_t>((host + by) % count)] / left);
    }
    if (slowest > most * (1 + 1e-9)) most = slowest, best = by;
  }
  return best;
}

/// The fastest of ring, tree and NVLSTree by NCCL's table, which knows of no lost NICs.
void Running::takeWhatNcclTakes() {
  const planner::Request left = request(false);
  if (!left.nccl) return;
  const planner::Cluster cluster(left);
  const planner::Rivals rivals(planner::rivalsOf(*left.nccl, cluster), cluster, "allreduce", left.cost);
  const auto bytes = static_cast<double>(question_.bytes);
  const planner::Rival& chosen = rivals.rival(rivals.chosen(bytes));
  name_ = chosen.name;
  leastUs_ = rivals.healthyUs(rivals.chosen(bytes), bytes);
  plan_.latencyUs = chosen.latencyUs;
  if (chosen.flow == planner::Flow::Tree) {
    streams_ = treeStreams(hosts_.count(), question_.cost, rotation(planner::treeLoads(hosts_.count())));
  }
  for (Stream& stream : streams_) stream.overhead *= chosen.wire / std::min(1.0, chosen.efficiency);
}

/// The published schedule's last phase, which is a hop longer for each piece more.
void Running::cutInto(int pieces) {
  int were = 0;
  for (planner::Part& part : plan_.parts) {
    were = std::max(were, part.pieces);
    if (part.pieces > 0) part.pieces = pieces;
  }
  if (were > 0) plan_.latencyUs += (pieces - were) * question_.cost.hopUs;
}

/// Each group sees its part of the bandwidth.
planner::Request Running::request(bool whole) const {
  planner::Request out;
  out.op = question_.op;
  out.bytes = question_.bytes;
  out.schedule = arm_.schedule;
  out.channels = question_.channels;
  out.cost = question_.cost;
  out.nccl = question_.nccl;
  out.planes = question_.topology.spine || !question_.topology.rail ? 1 : 0;
  if (out.nccl && out.nccl->channels == 0) out.nccl->channels = std::max(2, question_.topology.nics);
  if (out.nccl) out.nccl->localGBps = std::min(out.nccl->localGBps, question_.topology.nvlinkGBps);
  out.nodes.resize(static_cast<size_t>(hosts_.count()));
  for (int host = 0; host < hosts_.count(); host++) {
    planner::Node& node = out.nodes[static_cast<size_t>(host)];
    node.name = std::to_string(host);
    for (int rank = 0; rank < question_.ranksPerNode; rank++)
      node.ranks.push_back(host * question_.ranksPerNode + rank);
    for (int nic = 0; nic < question_.topology.nics; nic++) {
      const double left = whole ? 1 : hosts_.left(host)[static_cast<size_t>(nic)];
      node.nics.push_back({std::to_string(nic), question_.topology.rateGbit / question_.groups, left});
    }
  }
  return out;
}

namespace {

Answer solved(const Question& question, const State& state, bool withBytes) {
  Answer out;
  const Running running(question, state);
  out.timeUs = kNever;
  out.boundUs = running.possible() ? running.boundUs() : kNever;
  if (!running.possible()) return out;
  out.schedule = running.name();
  Collective collective(question, state, running);
  if (!collective.wire()) return out;
  const Flowed flowed = collective.flow();
  out.latencyUs = running.plan().latencyUs;
  out.timeUs = std::max(flowed.wholeUs + out.latencyUs, running.leastUs());
  if (!withBytes) return out;
  out.bytes = collective.byNic(flowed);
  out.endsUs = flowed.endUs;
  return out;
}

}  // namespace

/// Stage by stage, without pipelines, OptCC takes what a balanced ring takes: nobody would fill pipelines for longer.
Answer solve(const Question& question, const State& state, bool withBytes) {
  Answer out = solved(question, state, withBytes);
  if (out.schedule != planner::name(Schedule::OptCC)) return out;
  Question other = question;
  other.arm = "balance";
  Answer ring = solved(other, state, withBytes);
  return ring.timeUs < out.timeUs ? ring : out;
}

double healthyUs(const Question& question, int hosts) {
  Question whole = question;
  whole.arm = "stock";
  return solve(whole, {hosts, {}, 1}, false).timeUs;
}

}  // namespace r2cc::sim
