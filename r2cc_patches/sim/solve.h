// How long a collective takes on what is left of a cluster, with one way to deal with that (an arm).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/planner.h"
#include "sim/network/wiring.h"

namespace r2cc::sim {

/// What an arm does when a NIC is lost in the middle of a collective.
enum class Manner : uint8_t {
  Waits,      // for the link; too long ends the job
  FailsOver,  // to the other port of the same NIC, where it has one; else it waits
  Excludes,   // what is in flight is lost, and done again without what is broken
  Migrates,   // goes on over other NICs
};

/// What an arm runs, and how its connections use NICs.
struct Arm {
  const char* name;
  planner::Schedule schedule;
  Way way;
  Manner manner;
};
/// Null: there is none of this name.
const Arm* armOf(const std::string& name);
std::string armNames();

struct Question {
  Topology topology;
  planner::Cost cost;
  std::optional<planner::NcclMachine> nccl;  // all-reduces run as NCCL's table chooses; without it they are rings
  std::string op = "allreduce";
  uint64_t bytes = 0;
  std::string arm = "balance";
  int ranksPerNode = 1;
  int groups = 1;    // such communicators at once, each at home on NICs of its own
  int channels = 0;  // parts of a plan at most; 0: as the planner likes
  int pieces = 0;    // K of the published schedule; 0: the planner's
};

/// Hosts that are not named are whole. `fabric`: what is left of ToRs' uplinks.
struct State {
  int hosts = 0;
  std::vector<std::pair<int, Left>> left;
  double fabric = 1;
};

struct Answer {
  double timeUs = 0;  // kNever: it stands still
  double latencyUs = 0;
  double boundUs = 0;  // by bandwidth alone
  std::string schedule;
  Wiring::Bytes bytes;         // of all groups; only where asked for
  std::vector<double> endsUs;  // of the streams, group by group; likewise
};

/// What runs: the plan, its streams, and the shares of NICs that each group is at home on.
class Running {
 public:
  Running(const Question& question, const State& state);
  /// False: a host has nothing left, or the plan cannot be made.
  bool possible() const { return possible_; }
  const planner::Plan& plan() const { return plan_; }
  /// What it is called: the plan's schedule, or NCCL's algorithm and protocol.
  const std::string& name() const { return name_; }
  /// It takes so long at least: NCCL's own table; 0 for all else.
  double leastUs() const { return leastUs_; }
  const std::vector<Stream>& streams() const { return streams_; }
  const Hosts& hosts() const { return hosts_; }
  const Arm& arm() const { return arm_; }
  double boundUs() const { return boundUs_; }

 private:
  planner::Request request(bool whole) const;
  bool asNccl() const;
  void takeWhatNcclTakes();
  int rotation(const std::vector<double>& loads) const;
  void cutInto(int pieces);

  const Question& question_;
  const Arm& arm_;
  Hosts hosts_;
  bool possible_ = true;
  planner::Plan plan_;
  std::vector<Stream> streams_;
  std::string name_;
  double leastUs_ = 0;
  double boundUs_ = 0;
};

/// Shares of NICs of one group of several.
std::vector<double> homesOf(int group, int groups, int nics);
/// Of NVLink, for all groups together.
double nvlinkBytesPerUs(const Question& question);

/// Throws planner::PlanError for what cannot be asked.
Answer solve(const Question& question, const State& state, bool withBytes);
/// The same with everything whole.
double healthyUs(const Question& question, int hosts);

}  // namespace r2cc::sim
