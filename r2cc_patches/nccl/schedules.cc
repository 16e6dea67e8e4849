#include "schedules.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>

#include "base/process_life.h"
#include "bootstrap.h"
#include "chain_buffers.h"
#include "costs.h"
#include "engine/config.h"
#include "health_watch.h"
#include "planner/exact.h"
#include "planner/shapes/pool.h"
#include "planner/shapes/tree.h"
#include "record/r2cc_health.h"
#include "settings.h"

namespace r2cc::schedules {
namespace {

constexpr uint64_t kPlanBytes = 256 << 20;  // shares are those of large messages; the threshold says what is large

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdULL;
}

/// Empty if one of them is a NIC that no node is known to have.
std::vector<int> homesIn(const std::vector<planner::Node>& nodes, const std::vector<int>& homes) {
  size_t most = 0;
  for (const planner::Node& node : nodes) most = std::max(most, node.nics.size());
  for (const int home : homes) {
    if (home < 0 || static_cast<size_t>(home) >= most) return {};
  }
  return homes;
}

}  // namespace

Schedules::~Schedules() {
  HealthWatch::remove(this);
  agreement_.reset();
  loadUnevenly(false);
}

void Schedules::report() { agreement_->report(Capacities::localReport()); }

std::string Schedules::decide(const std::vector<std::string>& reports) {
  const std::string wanted = planner::capacitiesText(planner::withReports(initial_.nodes, reports));
  changed_ |= wanted != planner::capacitiesText(initial_.nodes);
  return changed_ ? wanted : "";
}

agree::Prepared Schedules::prepare(const std::string& proposal) {
  std::optional<std::vector<planner::Node>> then = planner::atCapacities(initial_.nodes, proposal);
  if (!then) return false;
  Plans plans = plansFor(*then, planner::plan);
  agree::Terms terms{{"the plan", exactText(plans)}};
  const std::lock_guard<std::mutex> lock(preparedMutex_);
  prepared_ = std::move(plans);
  preparedText_ = proposal;
  return {true, std::move(terms)};
}

/// What the user set was compared before (peer_terms.h). This is what came of it: where a part of a message lies, in
/// which pieces, and the first plan.
agree::Terms Schedules::terms() const {
  std::string cycles;
  for (const std::vector<int>& cycle : chains_.cycles()) {
    for (const int rank : cycle) cycles += std::to_string(rank) + " ";
    cycles += "/ ";
  }
  return {{"the cycles of chain channels", cycles},
          {"channels", std::to_string(comm_->nChannels) + " and from " + std::to_string(chains_.channel(0, 0)) +
                           " on " + std::to_string(chains_.perCycle()) + " a cycle"},
          {"the largest chunk of a chain", std::to_string(mostChunkBytes_)},
          {"what NICs have left", planner::capacitiesText(initial_.nodes)},
          {"the plan", exactText(plansOrRings(initial_.nodes))}};
}

template <typename PlanOf>
Schedules::Plans Schedules::plansFor(const std::vector<planner::Node>& nodes, PlanOf planOf) const {
  // Rings in another order have the AllReduce's connections, and count on a lost NIC's load on all that are left.
  Plans plans(kOperations.size());
  bool inTurn = mayBeInTurn();
  for (size_t i = kOperations.size(); i-- > 0;) {
    planner::Request request = requestFor(nodes, i);
    request.inTurn = inTurn;
    plans[i] = planOf(request);
    inTurn &= plans[i].schedule != planner::Schedule::Reranked;
  }
  return plans;
}

/// What cannot be planned with (a node without NICs of ours, or with none left) runs as NCCL chooses.
Schedules::Plans Schedules::plansOrRings(const std::vector<planner::Node>& nodes) const {
  return plansFor(nodes, planner::planOrRing);
}

std::string Schedules::exactText(const Plans& plans) {
  std::string text;
  for (const planner::Plan& plan : plans) text += plan.op + ": " + planner::exactText(plan) + "; ";
  return text;
}

planner::Request Schedules::requestFor(std::vector<planner::Node> nodes, size_t operation) const {
  planner::Request request;
  request.nodes = std::move(nodes);
  request.op = kOperations[operation].name;
  request.bytes = kPlanBytes;
  request.channels = static_cast<int>(chains_.cycles().size()) + 1;  // and NCCL's own rings
  request.cycles = chains_.cycles();
  request.rewired = comm_->runtimeConn;
  request.homes = homesIn(request.nodes, chains_.homes());
  request.schedule = Settings::get().schedule;
  request.cost = cost_;
  request.cost.evenRails = request.homes.empty();  // else every channel takes what its home can carry
  request.rivals = rivals_[operation];
  return request;
}

ncclResult_t Schedules::take(const agree::Decision& decision) {
  epoch_ = decision.epoch;
  std::optional<Plans> plans;
  {
    const std::lock_guard<std::mutex> lock(preparedMutex_);
    if (preparedText_ == decision.text) plans = std::move(prepared_);
    preparedText_.clear();
  }
  if (!plans) {  // a newer proposal took its place, and was withdrawn
    std::optional<std::vector<planner::Node>> then = planner::atCapacities(initial_.nodes, decision.text);
    if (!then) return ncclInternalError;
    plans = plansOrRings(*then);
  }
  return adopt(*plans, decision.text.c_str());
}

/// NCCL itself connects an algorithm's channels here when it runs first: all ranks come by, each communicator's on a
/// thread of its own. Ranks that prepare in the background would meet what their programs do over the same bootstrap.
ncclResult_t Schedules::connect() {
  if (!chains_.unconnected()) return ncclSuccess;
  const int64_t began = r2cc::nowNs();
  NCCLCHECK(chains_.connectHung(comm_));
  INFO(NCCL_INIT | NCCL_COLL, "R2CC: trees connected in %.1f ms", static_cast<double>(r2cc::nowNs() - began) / 1e6);
  return ncclSuccess;
}

ncclResult_t Schedules::enter(bool& mustConnect) {
  if (comm_->planner.nTasksColl + comm_->planner.nTasksBcast == 0) return ncclSuccess;
  if (ways_.empty()) NCCLCHECK(adopt(plansOrRings(initial_.nodes), planner::capacitiesText(initial_.nodes).c_str()));
  const agree::Decision& decision = agreement_->enter(history_ = hashOfGroup());
  if (decision.epoch != epoch_) NCCLCHECK(take(decision));
  if (uneven_ && !takesApart() && !replaysChains()) loadUnevenly(false);
  mustConnect |= chains_.unconnected();
  if (!ncclCudaGraphValid(comm_->planner.capturingGraph)) return ncclSuccess;
  agreement_->captured();
  for (const Way& way : ways_) {
    for (const Piece& piece : way.pieces) {
      if (!piece.ring) chains_.hold(piece.channel);
    }
  }
  return ncclSuccess;
}

uint64_t Schedules::hashOfGroup() {
  uint64_t hash = mixed(history_, static_cast<uint64_t>(comm_->planner.nTasksBcast));
  for (const ncclTaskColl* task = comm_->planner.collSorter.head; task != nullptr; task = task->next) {
    hash = mixed(hash, static_cast<uint64_t>(task->func) << 32 | static_cast<uint64_t>(task->datatype));
    hash = mixed(hash, task->count);
  }
  return hash;
}

void Schedules::loadUnevenly(bool now, bool inTurn) {
  const bool before = std::exchange(uneven_, now);
  inTurn_ = inTurn;
  if (now || before) r2ccUnevenLoad(now - before, comm_->commHash, inTurn ? 1 : 0);
}

/// Where there is a choice of NICs that are left, and the net takes any of them: of two ports of one adapter it does
/// not like the other.
bool Schedules::mayBeInTurn() const {
  planner::Request request;
  request.nodes = initial_.nodes;
  request.homes = homesIn(request.nodes, chains_.homes());
  const std::set<int> homes(request.homes.begin(), request.homes.end());
  return homes.size() > 2 && !planner::sharesNics(request) && !initial_.failTogether;
}

bool Schedules::takesApart() const {
  return std::any_of(ways_.begin(), ways_.end(), [](const Way& way) { return !way.pieces.empty(); });
}

/// Chains in graphs go on, and count on what was gone when they were captured. Of this rank alone, as what the net
/// does.
bool Schedules::replaysChains() const { return chains_.held() && comm_->localPersistentRefs > 0; }

std::vector<int> Schedules::homesOf(const planner::Part& part) const {
  if (!part.homes.empty()) return part.homes;
  std::vector<int> all(static_cast<size_t>(chains_.perCycle()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// NCCL's tree kernel takes from below and gives back down in one loop at the root, where either waits for the other. A
/// leaf has a loop for each: the slower end is better off as the tail.
bool Schedules::headIsSlower(const planner::Plan& plan, const planner::Part& part) const {
  const auto left = [&](int rank) { return plan.nodes[static_cast<size_t>(comm_->rankToNode[rank])].rateGbit; };
  return left(part.order.front()) < left(part.order.back());
}

Schedules::Thresholds Schedules::thresholdsOf(const planner::Plan& plan) {
  Thresholds out;
  for (auto& protocols : out) protocols.fill(UINT64_MAX);
  for (const planner::Baseline& each : plan.baselines) {
    for (int algorithm = 0; algorithm < NCCL_NUM_ALGORITHMS; algorithm++) {
      for (int protocol = 0; protocol < NCCL_NUM_PROTOCOLS; protocol++) {
        if (!each.beatenFrom || nameOf(algorithm, protocol) != each.name) continue;
        out[static_cast<size_t>(algorithm)][static_cast<size_t>(protocol)] = *each.beatenFrom;
      }
    }
  }
  return out;
}

/// Parts on channels that each is cut for by itself, and a ring on NCCL's own. `cuts`: all could be cut.
std::vector<Schedules::Piece> Schedules::chained(const planner::Plan& plan, bool& cuts) {
  std::vector<Piece> pieces;
  for (const planner::Part& part : plan.parts) {
    const bool ring = part.kind == planner::Kind::Ring;
    if (part.cycle < 0) {
      cuts &= ring;
      for (int c = 0; c < comm_->nChannels; c++) pieces.push_back({c, 1, true, part.share / comm_->nChannels});
      continue;
    }
    const auto cycle = static_cast<size_t>(part.cycle);
    const std::vector<int> homes = homesOf(part);
    if (part.kind == planner::Kind::Tree)
      cuts &= chains_.hang(comm_, cycle, homes, part);
    else
      cuts &= ring || (part.kind == planner::Kind::Chain &&
                       chains_.cut(comm_, cycle, homes, part.order, headIsSlower(plan, part)));
    for (const int which : homes) {
      pieces.push_back({chains_.channel(cycle, which), 1, ring, part.share / static_cast<double>(homes.size())});
    }
  }
  return pieces;
}

/// False: captured CUDA graphs hold channels that it needs cut elsewhere.
bool Schedules::wayOf(const planner::Plan& plan, Way& way) {
  way = {};
  if (!plan.thresholdBytes || plan.schedule == planner::Schedule::Ring) return true;
  bool cuts = true;
  if (plan.schedule == planner::Schedule::Reranked) {  // cycles next to each other, whole and alike
    const int first = chains_.channel(static_cast<size_t>(plan.parts.front().cycle), 0);
    way.pieces.push_back({first, static_cast<int>(plan.parts.size()) * chains_.perCycle(), true, 1});
  } else {
    way.pieces = chained(plan, cuts);
    way.chains = cuts;
    const int nodes = chains_.nodes();
    way.hops = 2 * (plan.schedule == planner::Schedule::Tree ? planner::treeDepth(nodes) : nodes - 1);
  }
  if (!cuts) way.pieces.clear();
  if (!way.pieces.empty()) way.beats = thresholdsOf(plan);
  way.inTurn = plan.inTurn && !way.pieces.empty();
  return cuts;
}

ncclResult_t Schedules::adopt(const Plans& plans, const char* what) {
  std::vector<Way> next(plans.size());
  bool chains = false;
  for (size_t i = 0; i < plans.size(); i++) {
    const bool cuts = wayOf(plans[i], next[i]);
    if (!cuts)
      WARN("R2CC: %s runs as NCCL chooses: a CUDA graph was captured with the chain channels as they are",
           kOperations[i].name);
    chains |= next[i].chains;
  }
  if (chains) NCCLCHECK(chains_.upload(comm_));
  ways_ = std::move(next);
  const bool inTurn = std::any_of(ways_.begin(), ways_.end(), [](const Way& way) { return way.inTurn; });
  if (takesApart() || !replaysChains()) loadUnevenly(takesApart(), inTurn || (inTurn_ && replaysChains()));
  for (size_t i = 0; i < plans.size(); i++) {
    const bool taken = !ways_[i].pieces.empty();
    const std::string from = taken ? " from " + std::to_string(*plans[i].thresholdBytes) + " bytes on" : "";
    INFO(NCCL_COLL, "R2CC: epoch %lu, %s: %s%s is %s. %s", epoch_, what, kOperations[i].name, from.c_str(),
         taken ? planner::name(plans[i].schedule) : "as NCCL chooses", plans[i].why.c_str());
  }
  return ncclSuccess;
}

}  // namespace r2cc::schedules
