// One per communicator under R2CC_MODE=3: what its AllReduces, AllGathers and ReduceScatters do while a node is
// degraded. The agreement says from which group on which capacities hold; the planner makes a plan for each operation
// of them, the same on every rank; tasks that a plan speeds up are taken apart into its parts.
// docs/internals/schedules.md
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agree/agreement.h"
#include "capacities.h"
#include "chain_channels.h"
#include "comm.h"
#include "planner/planner.h"

namespace r2cc::schedules {

using TaskQueue = ncclIntruQueue<ncclTaskColl, &ncclTaskColl::next>;

struct Operation {
  ncclFunc_t func;
  const char* name;  // the planner's
};
constexpr std::array<Operation, 3> kOperations{
    {{ncclFuncAllReduce, "allreduce"}, {ncclFuncAllGather, "allgather"}, {ncclFuncReduceScatter, "reducescatter"}}};

class Schedules {
 public:
  /// Collective. Null where R2CC_MODE or the communicator's shape leaves nothing to gain; NCCL's log says why.
  static ncclResult_t make(ncclComm* comm, std::unique_ptr<Schedules>& out);
  ~Schedules();
  Schedules(const Schedules&) = delete;
  Schedules& operator=(const Schedules&) = delete;

  /// `mustConnect`: set where connect() is to be called before anything of the group is launched.
  ncclResult_t enter(bool& mustConnect);
  /// Collective, beside other communicators'.
  ncclResult_t connect();
  bool split(ncclTaskColl* task, TaskQueue* queue);
  int chunkSize(const ncclTaskColl* task, size_t bytes, int chunkSize) const;
  /// What ChainChannels::treeNow says.
  const ncclTree* treeNow(int channel) { return chains_.treeNow(comm_, channel); }
  /// Any thread: NICs of this host may have changed.
  void report();

 private:
  explicit Schedules(ncclComm* comm) : comm_(comm) {}
  /// What a plan means for a task: a share of it on one channel, or on that one and the next ones alike.
  struct Piece {
    int channel = 0;
    int channels = 1;
    bool ring = false;
    double share = 0;
  };
  /// In bytes, by the algorithm and protocol that NCCL chose.
  using Thresholds = std::array<std::array<uint64_t, NCCL_NUM_PROTOCOLS>, NCCL_NUM_ALGORITHMS>;
  /// What an operation runs as.
  struct Way {
    Thresholds beats{};         // messages from here on are taken apart
    std::vector<Piece> pieces;  // none: as NCCL chooses
    bool chains = false;        // or trees: some of them
    int hops = 0;               // of these, there and back
    bool inTurn = false;        // Plan's
  };
  /// Of each operation in kOperations.
  using Plans = std::vector<planner::Plan>;

  /// Collective.
  ncclResult_t startAgreement();
  void followNics();
  std::string decide(const std::vector<std::string>& reports);
  agree::Prepared prepare(const std::string& proposal);
  agree::Terms terms() const;
  planner::Request requestFor(std::vector<planner::Node> nodes, size_t operation) const;
  template <typename PlanOf>
  Plans plansFor(const std::vector<planner::Node>& nodes, PlanOf planOf) const;
  Plans plansOrRings(const std::vector<planner::Node>& nodes) const;
  static std::string exactText(const Plans& plans);
  ncclResult_t adopt(const Plans& plans, const char* what);
  bool wayOf(const planner::Plan& plan, Way& way);
  std::vector<Piece> chained(const planner::Plan& plan, bool& cuts);
  const Way* wayOf(const ncclTaskColl* task) const;
  static Thresholds thresholdsOf(const planner::Plan& plan);
  bool headIsSlower(const planner::Plan& plan, const planner::Part& part) const;
  /// Which of a cycle's channels the part lies on.
  std::vector<int> homesOf(const planner::Part& part) const;
  void loadUnevenly(bool now, bool inTurn = false);
  bool mayBeInTurn() const;
  bool takesApart() const;
  bool replaysChains() const;
  ncclResult_t take(const agree::Decision& decision);
  uint64_t hashOfGroup();

  ncclComm* const comm_;
  ChainChannels chains_;
  Capacities initial_;
  std::vector<Way> ways_;   // of each operation; none: nothing was adopted yet
  int mostChunkBytes_ = 0;  // what chunks of chains grow to
  planner::Cost cost_;
  std::vector<std::vector<planner::Rival>> rivals_;  // of each operation
  uint64_t epoch_ = 0;
  uint64_t history_ = 0;
  bool uneven_ = false;  // the net was told that NICs are loaded unevenly
  bool inTurn_ = false;  // and that the plan is in turn
  std::mutex preparedMutex_;
  std::string preparedText_;       // under preparedMutex_
  std::optional<Plans> prepared_;  // under preparedMutex_
  bool changed_ = false;           // decide() proposed something once; rank 0's background thread only
  std::unique_ptr<agree::Agreement> agreement_;
};

}  // namespace r2cc::schedules
