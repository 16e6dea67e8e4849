// How a communicator begins with schedules: its channels are laid out and connected, and its ranks meet.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/process_life.h"
#include "bootstrap.h"
#include "chain_buffers.h"
#include "costs.h"
#include "health_watch.h"
#include "schedules.h"
#include "settings.h"

namespace r2cc::schedules {
namespace {

constexpr double kBytesPerUsOfGbit = 125;
// What a NIC takes some microseconds for, and more where that is little: beside its bytes, what a chunk costs a thread
// of sockets matters then. Of a slow NIC a chunk is half of what a connection may have under way (schedules.md).
constexpr double kChunkUs = 25, kWindowUs = 525;
constexpr int kThreadChunkBytes = 64 << 10, kSlowChunkBytes = 128 << 10;

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

/// By the slowest NIC.
double bytesPerUs(const std::vector<planner::Node>& nodes) {
  double slowest = 1e9;
  for (const planner::Node& node : nodes) {
    for (const planner::Nic& nic : node.nics) slowest = std::min(slowest, nic.rateGbit);
  }
  return slowest * kBytesPerUsOfGbit;
}

/// What a connection may have under way; of a NIC whose rate nobody knows, whatever NCCL gives it.
uint64_t windowOf(double bytesPerUs) {
  if (bytesPerUs <= 0) return UINT64_MAX;
  return static_cast<uint64_t>(std::max<double>(2 * kThreadChunkBytes, bytesPerUs * kWindowUs));
}

int chunkOf(double bytesPerUs) {
  const auto half = std::clamp(bytesPerUs * kWindowUs / 2, double{kThreadChunkBytes}, double{kSlowChunkBytes});
  return static_cast<int>(std::max(half, bytesPerUs * kChunkUs));
}

}  // namespace

ncclResult_t Schedules::make(ncclComm* comm, std::unique_ptr<Schedules>& out) {
  if (Settings::get().mode < 3) return ncclSuccess;
  if (comm->nNodes < 3) {  // nothing is faster than balanced paths, and there may be no NICs at all
    INFO(NCCL_INIT, "R2CC: no schedules for this communicator: fewer than three nodes");
    return ncclSuccess;
  }
  if (Settings::get().schedule == planner::Schedule::Ring) {
    INFO(NCCL_INIT, "R2CC: no schedules for this communicator: R2CC_SCHEDULE=ring");
    return ncclSuccess;
  }
  if (r2cc::inChild()) {
    WARN("R2CC: no communicator in a forked child of a process that uses R2CC");
    return ncclSystemError;
  }
  std::string reason;
  std::unique_ptr<Schedules> made(new Schedules(comm));
  NCCLCHECK(Capacities::gather(comm, made->initial_));
  const std::vector<planner::Node>& nodes = made->initial_.nodes;
  if (std::any_of(nodes.begin(), nodes.end(), [](const planner::Node& node) { return node.nics.empty(); })) {
    INFO(NCCL_INIT, "R2CC: no schedules for this communicator: a node has no NICs of R2CC's (another network plugin?)");
    return ncclSuccess;
  }
  made->chains_ = ChainChannels::layOut(comm, made->initial_.homes, reason);
  if (made->chains_.empty()) {
    INFO(NCCL_INIT, "R2CC: no schedules for this communicator: %s", reason.c_str());
    return ncclSuccess;
  }
  const double rate = bytesPerUs(made->initial_.nodes);
  made->mostChunkBytes_ = chunkOf(rate);
  const int least = Settings::get().leastChunkBytes;
  made->cost_ = costOf(comm, least, std::min(slotBytes(comm), std::max(least, made->mostChunkBytes_)));
  for (const Operation& operation : kOperations) made->rivals_.push_back(rivalsOf(comm, operation.func));
  NCCLCHECK(made->startAgreement());
  if (const std::string& never = made->agreement_->never(); !never.empty()) {
    INFO(NCCL_INIT, "R2CC: no schedules for this communicator: %s", never.c_str());
    return ncclSuccess;
  }
  const int64_t began = r2cc::nowNs();
  NCCLCHECK(made->chains_.connect(comm, windowOf(rate), made->mayBeInTurn()));
  INFO(NCCL_INIT, "R2CC: %zu cycles of %d nodes on %d channels each from %d on, connected in %.1f ms",
       made->chains_.cycles().size(), comm->nNodes, made->chains_.perCycle(), made->chains_.channel(0, 0),
       static_cast<double>(r2cc::nowNs() - began) / 1e6);
  made->followNics();
  out = std::move(made);
  return ncclSuccess;
}

ncclResult_t Schedules::startAgreement() {
  agree::Options options;
  options.rank = comm_->rank;
  options.ranks = comm_->nRanks;
  try {
    options.bindAddress = Settings::get().whereToMeet();
  } catch (const std::exception& problem) {
    options.cannot = problem.what();
  }
  options.name = "communicator " + std::to_string(comm_->commHash);
  options.terms = terms();
  options.hold = std::chrono::milliseconds(Settings::get().holdMs);
  try {
    options.encryption = encryptionOf(Settings::get().tls, Settings::get().tlsSecretFile);
  } catch (const std::invalid_argument& problem) {
    WARN("R2CC: %s", problem.what());
    return ncclInvalidUsage;
  }
  const uint32_t* aborted = comm_->abortFlag;
  options.aborted = [aborted] { return __atomic_load_n(aborted, __ATOMIC_ACQUIRE) != 0; };
  options.log = [](const std::string& line) { INFO(NCCL_COLL, "R2CC: %s", line.c_str()); };
  options.warn = [](const std::string& line) { WARN("R2CC: %s", line.c_str()); };
  agreement_ = agree::Agreement::make(
      options, [this](const std::string& mine) { return gatherTexts(comm_, mine); },
      [this](const std::vector<std::string>& reports) { return decide(reports); },
      [this](const std::string& proposal) { return prepare(proposal); });
  return ncclSuccess;
}

void Schedules::followNics() {
  try {
    HealthWatch::add(this, [this] { report(); });
  } catch (const std::exception& problem) {
    WARN("R2CC: no schedule will follow the NICs of this rank: %s", problem.what());
  }
  report();
}

}  // namespace r2cc::schedules
