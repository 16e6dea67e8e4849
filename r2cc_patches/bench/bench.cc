#include "bench.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "clock.h"
#include "errors.h"
#include "fd.h"
#include "report.h"

namespace r2cc::bench {
namespace {

std::vector<Flow> makeFlows(const Net& net, const Options& options, const std::vector<FlowPlan>& plans) {
  std::vector<Flow> flows;
  int connections = 0;
  for (const FlowPlan& plan : plans) {
    flows.emplace_back(net, options, plan, connections);
    connections += static_cast<int>(flows.back().connections());
  }
  return flows;
}

Fd timerOf(int ms) {
  Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec when{{0, 0}, {ms / 1000, ms % 1000 * 1'000'000L + 1}};
  if (!timer.valid() || timerfd_settime(timer.get(), 0, &when, nullptr) != 0) {
    throw std::system_error(errno, std::generic_category(), "timerfd");
  }
  return timer;
}

}  // namespace

Bench::Bench(const Options& options, const ncclNet_v11_t& table, Bootstrap& bootstrap, const LineWriter& out,
             ReadHealth health)
    : options_(options),
      bootstrap_(bootstrap),
      out_(out),
      net_(table, nonceOf(options.nonce + fingerprint(options)), options.mergeNics),
      data_(options),
      health_(std::move(health)),
      progress_(options.idleUs),
      carrier_(options.corruptCarrier, options.rank) {}

void Bench::checkFingerprints() {
  const std::string mine = fingerprint(options_);
  const std::vector<std::string> all = bootstrap_.allGather(mine);
  for (size_t rank = 0; rank < all.size(); rank++) {
    if (all[rank] == mine) continue;
    throw UsageError("rank " + std::to_string(rank) + " was started with '" + all[rank] + "', this rank with '" + mine +
                     "'");
  }
}

void Bench::layOut() {
  plans_ = flowsOf(options_, static_cast<int>(net_.nics().size()));
  if (options_.plan) place();
  flows_ = makeFlows(net_, options_, plans_);
}

// Rank 0 places for all: what it finds is a search's result.
void Bench::place() {
  std::vector<RankNics> ranks;
  for (const std::string& text : bootstrap_.allGather(textOf(ourNics()))) ranks.push_back(nicsFrom(text));
  const std::vector<std::string> names = align(ranks);
  std::string placed;
  if (options_.rank == 0) placed = textOf(plans_, placeNics(plans_, ranks, modeFromEnvironment() >= 2));
  const std::vector<NicLoad> loads = takePlacement(bootstrap_.allGather(placed).front(), plans_, options_.rank);
  std::vector<int> ours;  // by name; the first where we have none of that name, which then leads elsewhere
  for (const std::string& name : names) {
    const auto& nics = net_.nics();
    const auto found = std::find_if(nics.begin(), nics.end(), [&](const NicInfo& nic) { return nic.name == name; });
    ours.push_back(found == nics.end() ? 0 : static_cast<int>(found - nics.begin()));
  }
  for (size_t nic = 0; nic < std::min(names.size(), loads.size()); nic++) loads_.emplace_back(names[nic], loads[nic]);
  for (FlowPlan& flow : plans_) {
    for (int& nic : flow.nics) nic = ours.at(static_cast<size_t>(nic));
  }
}

RankNics Bench::ourNics() const {
  char host[HOST_NAME_MAX + 1] = {};
  (void)gethostname(host, sizeof(host) - 1);
  RankNics nics{host, health_ ? health_() : std::vector<double>(), {}};
  nics.capacities.resize(net_.nics().size(), 1.0);
  for (const NicInfo& nic : net_.nics()) nics.names.push_back(nic.name);
  return nics;
}

void Bench::onProgressThread(std::function<Pass()> pass) {
  progress_.start(std::move(pass));
  bootstrap_.waitFor(progress_.endedFd(), [this] { return progress_.moves(); });
  progress_.collect();
}

void Bench::exchangeHandles() {
  onProgressThread([this] {
    for (Flow& flow : flows_) handles_ += flow.listen();
    return Pass::Done;
  });
  takeHandles(bootstrap_.allGather(handles_));
}

// Everybody's handles come in the order of the edges that lead to him.
void Bench::takeHandles(const std::vector<std::string>& all) {
  std::vector<size_t> at(all.size());
  for (size_t i = 0; i < plans_.size(); i++) {
    const std::vector<Edge>& edges = plans_[i].sequence.edges;
    for (uint32_t edge = 0; edge < edges.size(); edge++) {
      const auto to = static_cast<size_t>(edges[edge].to);
      Handle handle{};
      if (all[to].size() < at[to] + handle.size()) throw TransportError("rank sent too few handles", edges[edge].to);
      std::copy_n(all[to].begin() + static_cast<ptrdiff_t>(at[to]), handle.size(), handle.begin());
      at[to] += handle.size();
      if (edges[edge].from == options_.rank) flows_[i].setPeerHandle(edge, handle);
    }
  }
}

size_t Bench::connections() const {
  size_t sum = 0;
  for (const Flow& flow : flows_) sum += flow.connections();
  return sum;
}

void Bench::connect() {
  const int flows = options_.channels * options_.connectionsPerPeer;
  net_.announce(options_.op, options_.ranks, flows);
  onProgressThread([this] {
    size_t standing = 0;
    for (Flow& flow : flows_) standing += flow.connect();
    const bool moved = standing != std::exchange(connected_, standing);
    if (standing < connections()) return moved ? Pass::Moved : Pass::Idle;
    for (Flow& flow : flows_) flow.useBuffers(data_.sendBuffer(), data_.receiveBuffer());
    return Pass::Done;
  });
}

void Bench::iterate(int64_t index) {
  bootstrap_.barrier();
  const uint64_t startNs = nowNs();
  out_.write(progressLine(options_.rank, index, startNs));
  beLate(index);
  for (Flow& flow : flows_) flow.begin();
  onProgressThread([this] {
    size_t moved = 0;
    bool complete = true;
    for (Flow& flow : flows_) {
      moved += flow.advance();
      complete &= flow.complete();
    }
    if (complete) {
      endNs_ = nowNs();
      return Pass::Done;
    }
    if (2 * moved >= connections()) return Pass::Saturated;
    return moved > 0 ? Pass::Moved : Pass::Idle;
  });
  bootstrap_.barrier();  // checking must not take the CPU from ranks that still work
  corruptIfAsked(index);
  const uint64_t wrong = data_.checkAndRefill(index);
  wrongElements_ += wrong;
  writeIteration(index, startNs, endNs_, wrong);
}

void Bench::corruptIfAsked(int64_t index) {
  const bool asked = options_.corrupt.rank == options_.rank && options_.corrupt.iteration == index;
  if (carrier_.due() || asked) data_.corruptOne();
}

// Sleeps while it watches the other ranks: they must not take it for dead, nor miss one of them that is.
void Bench::beLate(int64_t index) {
  for (const Lateness& late : options_.late) {
    if (late.rank != options_.rank || late.iteration != index) continue;
    out_.write(lateLine(options_.rank, index, late.ms, "begin"));
    const Fd timer = timerOf(late.ms);
    uint64_t waits = 0;
    bootstrap_.waitFor(timer.get(), [&waits] { return waits++; });
    out_.write(lateLine(options_.rank, index, late.ms, "end"));
  }
}

// By rank 0's clock alone, and told to all: they must agree on which iteration is the last.
bool Bench::timeIsUp(int64_t index) {
  if (options_.seconds == 0 || index < 0) return false;
  if (index == 0) firstNs_ = nowNs();
  const bool mine = nowNs() - firstNs_ >= static_cast<uint64_t>(options_.seconds) * 1'000'000'000;
  return index > 0 && !bootstrap_.allGather(mine ? "end" : "")[0].empty();
}

void Bench::writeIteration(int64_t index, uint64_t startNs, uint64_t endNs, uint64_t wrong) const {
  out_.write(iterationLine(options_, index, startNs, endNs, wrong));
  for (const Flow& flow : flows_) {
    for (const Receiver& receiver : flow.receivers()) {
      for (std::string& line : deliveryLines(options_.rank, receiver.id().id, index, startNs, receiver.deliveredNs())) {
        out_.write(std::move(line));
      }
    }
  }
}

void Bench::close() {
  onProgressThread([this] {
    for (Flow& flow : flows_) flow.close();
    return Pass::Done;
  });
  net_.finalize();
}

uint64_t Bench::run() {
  checkFingerprints();
  layOut();
  exchangeHandles();
  connect();
  out_.write(startLine(options_, net_, flows_, loads_));
  data_.fill(-options_.warmup);
  int64_t index = -options_.warmup;
  for (; index < options_.iterations && !timeIsUp(index); index++) iterate(index);
  bootstrap_.barrier();
  close();
  out_.write(endLine(options_.rank, index, wrongElements_));
  bootstrap_.barrier();  // nobody leaves while another may still fail
  return wrongElements_;
}

}  // namespace r2cc::bench
