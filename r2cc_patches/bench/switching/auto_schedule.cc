#include "bench/switching/auto_schedule.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "bench/errors.h"
#include "planner/capacities.h"
#include "planner/exact.h"

namespace r2cc::bench {
namespace {

constexpr uint64_t kPlanChunkBytes = 32u << 10;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// R2CC_HOLD_MS; what is no number the net refuses.
std::chrono::milliseconds holdTime(std::chrono::milliseconds otherwise) {
  const std::string text = setting("R2CC_HOLD_MS");
  int64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  return error == std::errc() && end == text.data() + text.size() && ms >= 0 ? std::chrono::milliseconds(ms)
                                                                             : otherwise;
}

/// As the net takes it. Throws UsageError.
std::shared_ptr<const Encryption> encryption() {
  try {
    return encryptionOf(setting("R2CC_TLS"), setting("R2CC_TLS_SECRET_FILE"));
  } catch (const std::invalid_argument& problem) {
    throw UsageError(problem.what());
  }
}

}  // namespace

AutoSchedule::AutoSchedule(const Options& options, Bootstrap& bootstrap, std::vector<planner::Node> nodes,
                           Tracks tracks, std::function<std::vector<double>(int64_t)> capacities)
    : options_(options),
      bootstrap_(bootstrap),
      nodes_(std::move(nodes)),
      tracks_(std::move(tracks)),
      capacities_(std::move(capacities)) {
  agreement_ = agree::Agreement::make(
      agreementOptions(), [this](const std::string& mine) { return bootstrap_.allGather(mine); },
      [this](const std::vector<std::string>& reports) { return decide(reports); },
      [this](const std::string& proposal) { return prepare(proposal); });
  watch_ = std::make_unique<HealthWatch>([this, last = std::string()]() mutable {
    std::string now = planner::capacityReport(capacities_(iteration_.load(std::memory_order_relaxed)));
    if (now != std::exchange(last, now)) agreement_->report(std::move(now));
  });
}

AutoSchedule::~AutoSchedule() {
  watch_.reset();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_ = true;
  }
  leaving_.notify_all();
  agreement_.reset();
}

agree::Options AutoSchedule::agreementOptions() {
  agree::Options made;
  made.rank = options_.rank;
  made.ranks = options_.ranks;
  made.bindAddress = bootstrap_.localAddress();
  made.name = "r2cc_bench";
  made.terms = {{"the plan", planner::exactText(first().plan)}};
  made.encryption = encryption();
  made.hold = holdTime(made.hold);
  made.aborted = [this] { return somebodyEnded(); };
  made.log = [rank = options_.rank](const std::string& line) {
    std::fprintf(stderr, "r2cc_bench: rank %d: %s\n", rank, line.c_str());
  };
  return made;
}

// While enter() waits nobody else listens to the bootstrap. It asks on the thread that is in enter(): ours.
bool AutoSchedule::somebodyEnded() {
  try {
    bootstrap_.look();
  } catch (const TransportError&) {
    ended_ = std::current_exception();
  }
  return ended_ != nullptr;
}

std::string AutoSchedule::decide(const std::vector<std::string>& reports) {
  const std::string wanted = planner::capacitiesText(planner::withReports(nodes_, reports));
  changed_ |= wanted != planner::capacitiesText(nodes_);
  return changed_ ? wanted : "";
}

agree::Prepared AutoSchedule::prepare(const std::string& proposal) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    prepared_.reset();
    if (options_.slowToAgree.rank == options_.rank) {
      leaving_.wait_for(lock, std::chrono::milliseconds(options_.slowToAgree.ms), [this] { return left_; });
    }
    if (left_) return false;
  }
  Choice choice = choose(proposal, 0);
  agree::Terms terms{{"the plan", planner::exactText(choice.plan)}};
  const std::lock_guard<std::mutex> lock(mutex_);
  prepared_ = std::move(choice);
  return {true, std::move(terms)};
}

planner::Plan AutoSchedule::planFor(std::vector<planner::Node> nodes) const {
  planner::Request request;
  request.nodes = std::move(nodes);
  request.bytes = options_.bytes;
  request.cycles = tracks_.cycles();
  request.channels = static_cast<int>(request.cycles.size()) + 1;  // and the ring
  request.homes = tracks_.homes();
  request.schedule = options_.schedule.value_or(planner::Schedule::Auto);
  if (request.cycles.empty()) request.schedule = planner::Schedule::Ring;
  request.cost.evenRails = false;  // every connection has a NIC of its own
  request.cost.chunkBytes = std::min<uint64_t>(kPlanChunkBytes, options_.chunkBytes);
  planner::Plan plan = planner::planOrRing(request);
  if (request.cycles.empty() && !plan.nodes.empty())
    plan.why = "fewer than three hosts: nothing is faster than a ring on balanced paths";
  return plan;
}

Choice AutoSchedule::choose(const std::string& capacities, uint64_t epoch) const {
  std::optional<std::vector<planner::Node>> nodes = planner::atCapacities(nodes_, capacities);
  if (!nodes) throw std::runtime_error("the proposal is none of the bench's: " + capacities.substr(0, 64));
  Choice choice;
  choice.epoch = epoch;
  choice.capacities = capacities;
  choice.plan = planFor(std::move(*nodes));
  const uint64_t elements = options_.bytes / sizeof(float);
  for (const Sequence& program : tracks_.programs(choice.plan, elements, options_.chunkBytes)) {
    choice.used.push_back(!program.transfers.empty());
    choice.ends.push_back(weave(program, options_.rank, options_.inARow));
  }
  return choice;
}

Choice AutoSchedule::first() const { return choose(planner::capacitiesText(nodes_), 0); }

std::optional<Choice> AutoSchedule::enter(int64_t iteration) {
  iteration_.store(iteration, std::memory_order_relaxed);
  history_ = history_ * 31 + static_cast<uint64_t>(iteration);
  try {
    const agree::Decision& decision = agreement_->enter(history_);
    if (decision.epoch == epoch_) return std::nullopt;
    epoch_ = decision.epoch;
    std::optional<Choice> choice;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (prepared_ && prepared_->capacities == decision.text) choice = std::exchange(prepared_, std::nullopt);
    }
    if (!choice) choice = choose(decision.text, epoch_);  // a newer proposal took its place
    choice->epoch = epoch_;
    return choice;
  } catch (const agree::AgreementBroken& broken) {
    if (ended_) std::rethrow_exception(ended_);
    throw TransportError(broken.what(), broken.rank());
  }
}

}  // namespace r2cc::bench
