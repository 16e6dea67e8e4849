#include "bench/bench.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/fd.h"
#include "bench/clock.h"
#include "bench/errors.h"
#include "bench/report.h"

namespace r2cc::bench {
namespace {

// What the library and the planner take from the environment, and all ranks alike.
constexpr const char* kSharedVariables[] = {"R2CC_MODE", "R2CC_SCHEDULE", "R2CC_CHAIN_CHUNK_BYTES"};

// By name; the first where we have none of that name, which then leads elsewhere.
std::vector<int> devicesOf(const Net& net, const std::vector<std::string>& names) {
  std::vector<int> devices;
  for (const std::string& name : names) {
    const auto& nics = net.nics();
    const auto found = std::find_if(nics.begin(), nics.end(), [&](const NicInfo& nic) { return nic.name == name; });
    devices.push_back(found == nics.end() ? 0 : static_cast<int>(found - nics.begin()));
  }
  return devices;
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

Bench::Bench(const Options& options, const ncclNet_t& table, Bootstrap& bootstrap, const LineWriter& out, Health health)
    : options_(options),
      bootstrap_(bootstrap),
      out_(out),
      net_(table, nonceOf(options.nonce + fingerprint(options)), options.mergeNics),
      data_(options),
      health_(std::move(health)),
      progress_(options.idleUs),
      carrier_(options.corruptCarrier, options.rank) {}

// Everybody hears everybody's before anybody ends, so that each rank says it for itself.
void Bench::checkTerms() {
  agree::Terms mine = terms(options_);
  for (const char* name : kSharedVariables) {
    const char* value = std::getenv(name);
    mine.push_back({name, value != nullptr ? value : ""});
  }
  std::vector<agree::Stated> stated;
  const std::string hash = std::to_string(agree::hashOf(mine)) + "\n";
  for (const std::string& text : bootstrap_.allGather(hash + agree::textOf(mine))) {
    const size_t end = std::min(text.find('\n'), text.size());
    stated.push_back({text.substr(std::min(end + 1, text.size())), "", std::strtoull(text.c_str(), nullptr, 10)});
  }
  const std::string different = agree::difference(stated);
  if (different.empty()) return;
  try {
    bootstrap_.barrier();
  } catch (const TransportError&) {  // NOLINT(bugprone-empty-catch): somebody ended first, for the same reason
  }
  throw UsageError("the ranks were started differently: " + different);
}

void Bench::layOut() {
  plans_ = flowsOf(options_, static_cast<int>(net_.nics().size()));
  if (options_.plan) place();
  if (options_.schedule) return planAhead();
  std::vector<size_t> all(plans_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  lay(all);
}

void Bench::planAhead() {
  if (!health_.read || health_.read().empty()) {
    throw UsageError("--schedule takes a net that tells its NICs' health: libr2cc_net.so with R2CC_MODE 1 to 3");
  }
  const std::vector<RankNics> ranks = meetNics();
  const std::vector<std::string> names = ranks.front().names;
  const std::vector<int> ours = devicesOf(net_, names);
  auto_ = std::make_unique<AutoSchedule>(
      options_, bootstrap_, nodesOf(ranks), Tracks(nodesOf(ranks), options_.channels, static_cast<int>(names.size())),
      [this, names](int64_t iteration) { return capacitiesAt(ourNics(), names, options_, iteration); });
  plans_ = auto_->tracks().plans();
  for (FlowPlan& flow : plans_) {
    for (int& nic : flow.nics) nic = ours.at(static_cast<size_t>(nic));
  }
  first_ = auto_->first();
  std::vector<size_t> wanted;
  for (size_t track = 0; track < plans_.size(); track++) {
    if (options_.connect == Connect::Ahead || plans_[track].part == 0 || first_->used[track]) wanted.push_back(track);
  }
  lay(wanted);
}

void Bench::lay(const std::vector<size_t>& plans) {
  const size_t first = flows_.size();
  for (const size_t plan : plans) {
    flows_.emplace_back(net_, options_, plans_[plan], static_cast<int>(connections()));
    laid_.push_back(plan);
  }
  if (plans.empty()) return;
  exchangeHandles(first);
  connect(first);
  working_ = 0;
  for (const Flow& flow : flows_) working_ += flow.working();
}

void Bench::adopt(Choice choice, int64_t index, uint64_t beganNs) {
  std::vector<size_t> missing;
  for (size_t track = 0; track < plans_.size(); track++) {
    const bool there = std::find(laid_.begin(), laid_.end(), track) != laid_.end();
    if (choice.used[track] && !there) missing.push_back(track);
  }
  const size_t first = flows_.size();
  const uint64_t connectNs = nowNs();
  lay(missing);
  const Adoption adoption{index, connections(first), connectNs - beganNs, nowNs() - connectNs};
  use(choice);
  out_.write(scheduleLine(options_.rank, choice, adoption));
}

void Bench::use(Choice& choice) {
  working_ = 0;
  for (size_t i = 0; i < flows_.size(); i++) {
    flows_[i].use(std::move(choice.ends[laid_[i]]));
    working_ += flows_[i].working();
  }
  const auto noRing = [](const planner::Part& part) { return part.kind != planner::Kind::Ring; };
  const bool uneven = choice.plan.inTurn || std::any_of(choice.plan.parts.begin(), choice.plan.parts.end(), noRing);
  const bool before = std::exchange(uneven_, uneven);
  if ((uneven || before) && health_.loadUnevenly) health_.loadUnevenly(uneven - before, choice.plan.inTurn);
}

// Rank 0 places for all: what it finds is a search's result.
void Bench::place() {
  const std::vector<RankNics> ranks = meetNics();
  const std::vector<std::string>& names = ranks.front().names;
  std::string placed;
  if (options_.rank == 0) placed = textOf(plans_, placeNics(plans_, ranks, modeFromEnvironment() >= 2));
  const std::vector<NicLoad> loads = takePlacement(bootstrap_.allGather(placed).front(), plans_, options_.rank);
  const std::vector<int> ours = devicesOf(net_, names);
  for (size_t nic = 0; nic < std::min(names.size(), loads.size()); nic++) loads_.emplace_back(names[nic], loads[nic]);
  for (FlowPlan& flow : plans_) {
    for (int& nic : flow.nics) nic = ours.at(static_cast<size_t>(nic));
  }
}

std::vector<RankNics> Bench::meetNics() const {
  std::vector<RankNics> ranks;
  for (const std::string& text : bootstrap_.allGather(textOf(ourNics()))) ranks.push_back(nicsFrom(text));
  align(ranks);
  return ranks;
}

// Hosts have the names that NCCL gives them.
RankNics Bench::ourNics() const {
  char host[HOST_NAME_MAX + 1] = {};
  (void)gethostname(host, sizeof(host) - 1);
  const char* given = std::getenv("NCCL_HOSTID");
  RankNics nics;
  nics.host = given != nullptr && *given != '\0' ? given : host;
  if (!options_.host.empty()) nics.host = options_.host;
  const std::vector<NicState> states = health_.read ? health_.read() : std::vector<NicState>();
  for (size_t nic = 0; nic < net_.nics().size(); nic++) {
    nics.names.push_back(net_.nics()[nic].name);
    nics.capacities.push_back(nic < states.size() ? states[nic].capacity : 1.0);
    nics.rates.push_back(nic < states.size() ? states[nic].rateGbit : 0.0);
  }
  return nics;
}

void Bench::onProgressThread(std::function<Pass()> pass) {
  progress_.start(std::move(pass));
  bootstrap_.waitFor(progress_.endedFd(), [this] { return progress_.moves(); });
  progress_.collect();
}

void Bench::exchangeHandles(size_t firstFlow) {
  handles_.clear();
  onProgressThread([this, firstFlow] {
    for (size_t i = firstFlow; i < flows_.size(); i++) handles_ += flows_[i].listen();
    return Pass::Done;
  });
  takeHandles(firstFlow, bootstrap_.allGather(handles_));
}

// Everybody's handles come in the order of the edges that lead to him.
void Bench::takeHandles(size_t firstFlow, const std::vector<std::string>& all) {
  std::vector<size_t> at(all.size());
  for (size_t i = firstFlow; i < flows_.size(); i++) {
    const std::vector<Edge>& edges = plans_[laid_[i]].sequence.edges;
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

size_t Bench::connections(size_t firstFlow) const {
  size_t sum = 0;
  for (size_t i = firstFlow; i < flows_.size(); i++) sum += flows_[i].connections().size();
  return sum;
}

void Bench::connect(size_t firstFlow) {
  const int flows = options_.channels * options_.connectionsPerPeer;
  net_.announce(options_.op, options_.ranks, flows);
  connected_ = 0;
  onProgressThread([this, firstFlow] {
    size_t standing = 0;
    for (size_t i = firstFlow; i < flows_.size(); i++) {
      if (health_.connects) health_.connects(plans_[laid_[i]].turn);
      standing += flows_[i].connect();
    }
    const bool moved = standing != std::exchange(connected_, standing);
    if (standing < connections(firstFlow)) return moved ? Pass::Moved : Pass::Idle;
    for (size_t i = firstFlow; i < flows_.size(); i++) {
      flows_[i].useBuffers(data_.sendBuffer(), data_.receiveBuffer());
    }
    return Pass::Done;
  });
}

void Bench::iterate(int64_t index) {
  const uint64_t beganNs = nowNs();
  if (auto_) {
    if (std::optional<Choice> choice = auto_->enter(index)) adopt(std::move(*choice), index, beganNs);
  }
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
    uint64_t received = UINT64_MAX;
    for (const Flow& flow : flows_) received = std::min(received, flow.turnsReceived());
    for (Flow& flow : flows_) flow.allowTurns(received);
    if (complete) {
      endNs_ = nowNs();
      return Pass::Done;
    }
    if (2 * moved >= working_) return Pass::Saturated;
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
    for (const Connection& each : flow.connections()) {  // a sending end has no deliveries
      for (std::string& line : deliveryLines(options_.rank, each.id().id, index, startNs, each.deliveredNs())) {
        out_.write(std::move(line));
      }
    }
  }
}

void Bench::close() {
  auto_.reset();
  onProgressThread([this] {
    for (Flow& flow : flows_) flow.close();
    return Pass::Done;
  });
  net_.finalize();
}

uint64_t Bench::run() {
  checkTerms();
  layOut();
  out_.write(startLine(options_, net_, flows_, loads_));
  if (first_) adopt(std::move(*first_), -options_.warmup, nowNs());
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
