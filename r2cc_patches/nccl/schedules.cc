#include "schedules.h"

#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/process_life.h"
#include "bootstrap.h"
#include "costs.h"
#include "engine/config.h"
#include "health_watch.h"
#include "planner/exact.h"
#include "planner/shapes/tree.h"
#include "record/r2cc_health.h"
#include "settings.h"

namespace r2cc::schedules {
namespace {

constexpr double kChunkUs = 25, kBytesPerUsOfGbit = 125;
constexpr uint64_t kPlanBytes = 256 << 20;  // shares are those of large messages; the threshold says what is large

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdULL;
}

/// Texts of any length over a bootstrap that gathers blocks of one size.
std::vector<std::string> gatherTexts(ncclComm* comm, const std::string& mine) {
  const auto must = [](ncclResult_t result) {
    if (result != ncclSuccess) throw std::runtime_error("the bootstrap failed");
  };
  const auto ranks = static_cast<size_t>(comm->nRanks), self = static_cast<size_t>(comm->rank);
  std::vector<uint32_t> sizes(ranks);
  sizes[self] = static_cast<uint32_t>(mine.size());
  must(bootstrapAllGather(comm->bootstrap, sizes.data(), sizeof(uint32_t)));
  size_t most = 1;
  for (const uint32_t size : sizes) most = std::max<size_t>(most, size);
  std::vector<char> all(ranks * most);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<ptrdiff_t>(self * most));
  must(bootstrapAllGather(comm->bootstrap, all.data(), static_cast<int>(most)));
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < ranks; rank++) texts.emplace_back(all.data() + rank * most, sizes[rank]);
  return texts;
}

int chunkOf(const std::vector<planner::Node>& nodes) {
  double slowest = 1e9;
  for (const planner::Node& node : nodes) {
    for (const planner::Nic& nic : node.nics) slowest = std::min(slowest, nic.rateGbit);
  }
  return static_cast<int>(slowest * kBytesPerUsOfGbit * kChunkUs);
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

ncclResult_t Schedules::make(ncclComm* comm, std::unique_ptr<Schedules>& out) {
  if (Settings::get().mode < 3) return ncclSuccess;
  if (comm->nNodes < 3) {  // nothing is faster than balanced paths, and there may be no NICs at all
    INFO(NCCL_INIT, "R2CC: no schedules for this communicator: fewer than three nodes");
    return ncclSuccess;
  }
  if (r2cc::inChild()) {
    WARN("R2CC: no communicator in a forked child of a process that uses R2CC");
    return ncclSystemError;
  }
  std::string reason;
  std::unique_ptr<Schedules> made(new Schedules(comm));
  NCCLCHECK(Capacities::gather(comm, made->initial_));
  made->chains_ = ChainChannels::layOut(comm, made->initial_.homes, reason);
  if (made->chains_.empty()) {
    INFO(NCCL_INIT, "R2CC: no schedules for this communicator: %s", reason.c_str());
    return ncclSuccess;
  }
  const int64_t began = r2cc::nowNs();
  NCCLCHECK(made->chains_.connect(comm));
  made->chunkOfRate_ = chunkOf(made->initial_.nodes);
  const int least = Settings::get().leastChunkBytes;
  const int slot = comm->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS;
  made->cost_ = costOf(comm, least, std::min(slot, std::max(least, made->chunkOfRate_)));
  made->rivals_ = rivalsOf(comm);
  INFO(NCCL_INIT, "R2CC: %zu cycles of %d nodes on %d channels each from %d on, connected in %.1f ms",
       made->chains_.cycles().size(), comm->nNodes, made->chains_.perCycle(), made->chains_.channel(0, 0),
       static_cast<double>(r2cc::nowNs() - began) / 1e6);
  NCCLCHECK(made->startAgreement());
  out = std::move(made);
  return ncclSuccess;
}

ncclResult_t Schedules::startAgreement() {
  agree::Options options;
  options.rank = comm_->rank;
  options.ranks = comm_->nRanks;
  options.bindAddress = Settings::get().whereToMeet();
  options.name = "communicator " + std::to_string(comm_->commHash);
  options.terms = terms();
  options.hold = std::chrono::milliseconds(Settings::get().holdMs);
  const uint32_t* aborted = comm_->abortFlag;
  options.aborted = [aborted] { return __atomic_load_n(aborted, __ATOMIC_ACQUIRE) != 0; };
  options.log = [](const std::string& line) { INFO(NCCL_COLL, "R2CC: %s", line.c_str()); };
  options.warn = [](const std::string& line) { WARN("R2CC: %s", line.c_str()); };
  agreement_ = agree::Agreement::make(
      options, [this](const std::string& mine) { return gatherTexts(comm_, mine); },
      [this](const std::vector<std::string>& reports) { return decide(reports); },
      [this](const std::string& proposal) { return prepare(proposal); });
  HealthWatch::add(this);
  report();
  return ncclSuccess;
}

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
  planner::Plan plan = planner::plan(requestFor(std::move(*then)));
  agree::Terms terms{{"the plan", planner::exactText(plan)}};
  const std::lock_guard<std::mutex> lock(preparedMutex_);
  prepared_ = std::move(plan);
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
          {"the largest chunk of a chain", std::to_string(chunkOfRate_)},
          {"what NICs have left", planner::capacitiesText(initial_.nodes)},
          {"the plan", planner::exactText(planOrRing(initial_.nodes))}};
}

/// What cannot be planned with (a node without NICs of ours, or with none left) runs as NCCL chooses.
planner::Plan Schedules::planOrRing(std::vector<planner::Node> nodes) const {
  return planner::planOrRing(requestFor(std::move(nodes)));
}

planner::Request Schedules::requestFor(std::vector<planner::Node> nodes) const {
  planner::Request request;
  request.nodes = std::move(nodes);
  request.bytes = kPlanBytes;
  request.channels = static_cast<int>(chains_.cycles().size()) + 1;  // and NCCL's own rings
  request.cycles = chains_.cycles();
  request.rewired = comm_->runtimeConn;
  request.homes = homesIn(request.nodes, chains_.homes());
  request.schedule = Settings::get().schedule;
  request.cost = cost_;
  request.cost.evenRails = request.homes.empty();  // else every channel takes what its home can carry
  request.rivals = rivals_;
  return request;
}

ncclResult_t Schedules::take(const agree::Decision& decision) {
  epoch_ = decision.epoch;
  std::optional<planner::Plan> plan;
  {
    const std::lock_guard<std::mutex> lock(preparedMutex_);
    if (preparedText_ == decision.text) plan = std::move(prepared_);
    preparedText_.clear();
  }
  if (!plan) {  // a newer proposal took its place, and was withdrawn
    std::optional<std::vector<planner::Node>> then = planner::atCapacities(initial_.nodes, decision.text);
    if (!then) return ncclInternalError;
    plan = planOrRing(std::move(*then));
  }
  return adopt(*plan, decision.text.c_str());
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
  if (active_.plan.parts.empty())
    NCCLCHECK(adopt(planOrRing(initial_.nodes), planner::capacitiesText(initial_.nodes).c_str()));
  const agree::Decision& decision = agreement_->enter(history_ = hashOfGroup());
  if (decision.epoch != epoch_) NCCLCHECK(take(decision));
  mustConnect |= chains_.unconnected();
  if (!ncclCudaGraphValid(comm_->planner.capturingGraph)) return ncclSuccess;
  agreement_->captured();
  for (const Piece& piece : active_.pieces) {
    if (!piece.ring) chains_.hold(piece.channel);
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

void Schedules::loadUnevenly(bool now) {
  if (now != std::exchange(uneven_, now)) r2ccUnevenLoad(now ? 1 : -1);
}

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

ncclResult_t Schedules::adopt(const planner::Plan& plan, const char* what) {
  Active next;
  next.plan = plan;
  bool cuts = true, chains = false;
  if (comm_->localPersistentRefs == 0) chains_.release();
  for (const planner::Part& part : plan.parts) {
    if (part.kind == planner::Kind::Ring) {
      for (int c = 0; c < comm_->nChannels; c++) {
        next.pieces.push_back({c, true, part.share / comm_->nChannels});
      }
      continue;
    }
    chains = true;
    const auto cycle = static_cast<size_t>(part.cycle);
    const std::vector<int> homes = homesOf(part);
    if (part.kind == planner::Kind::Tree)
      cuts &= part.cycle >= 0 && chains_.hang(comm_, cycle, homes, part);
    else
      cuts &= part.kind == planner::Kind::Chain && part.cycle >= 0 &&
              chains_.cut(comm_, cycle, homes, part.order, headIsSlower(plan, part));
    for (const int which : homes) {
      next.pieces.push_back({chains_.channel(cycle, which), false, part.share / static_cast<double>(homes.size())});
    }
  }
  const bool taken = chains && cuts && plan.thresholdBytes.has_value();
  if (taken) {
    next.fromBytes = *plan.thresholdBytes;
    next.beats = thresholdsOf(plan);
    const int nodes = chains_.nodes();
    next.hops = 2 * (plan.schedule == planner::Schedule::Tree ? planner::treeDepth(nodes) : nodes - 1);
    NCCLCHECK(chains_.upload(comm_));
  } else {
    next.pieces.clear();
  }
  if (chains && !cuts) WARN("R2CC: AllReduce keeps its ring: captured CUDA graphs hold the chain channels");
  active_ = std::move(next);
  loadUnevenly(taken);
  INFO(NCCL_COLL, "R2CC: epoch %lu, %s: AllReduce from %lu bytes on is %s. %s", static_cast<unsigned long>(epoch_),
       what, static_cast<unsigned long>(active_.fromBytes), taken ? planner::name(plan.schedule) : "as NCCL chooses",
       plan.why.c_str());
  return ncclSuccess;
}

}  // namespace r2cc::schedules
