#include "agree/gate.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/clock.h"

namespace r2cc::agree {
namespace {

// A lease ends before the next mark, which the slow path makes; and it is short where groups are slow, so that a
// switch is never put off by more than a few milliseconds of groups.
constexpr uint64_t kMostLeased = kStride;
constexpr int64_t kLeaseLongNs = msToNs(4), kLeaseTooLongNs = msToNs(8);
constexpr int64_t kMeasureNs = msToNs(20), kStaleNs = msToNs(1000);
constexpr uint64_t kLeastMargin = 2, kMostMargin = 65536;

/// A few ms coarse, and much cheaper than the exact one.
int64_t coarseNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

std::string describe(int rank, const std::string& address, const std::string& cause) {
  return "the ranks can agree on nothing any more: rank " + std::to_string(rank) + " (" + address + "): " + cause;
}

}  // namespace

AgreementBroken::AgreementBroken(int rank, std::string address, std::string cause)
    : std::runtime_error(describe(rank, address, cause)),
      rank_(rank),
      address_(std::move(address)),
      cause_(std::move(cause)) {}

Gate::Gate(int rank, std::string address, std::function<bool()> aborted)
    : rank_(rank), address_(std::move(address)), aborted_(std::move(aborted)), process_(processNumber()) {
  fenceAllThreads();  // the first, which is slow
}

void Gate::throwIfBroken() const {
  if (broken_) throw AgreementBroken(*broken_);
}

const Decision& Gate::enterSlowly(uint64_t group, uint64_t history) {
  if (process_ != processNumber()) throw AgreementBroken(rank_, address_, "this is a forked child, and no rank");
  std::unique_lock lock(mutex_);
  throwIfBroken();
  if (promised_ && group > *promised_) await(lock, group);
  while (!pending_.empty() && pending_.front().first <= group) {
    current_ = std::move(pending_.front());
    pending_.pop_front();
  }
  if (group % kStride == 0) history_.add({group, captures_, history});
  lease(group);
  return current_;
}

// No timeout of its own: only a commit, a withdrawal or the end of the communicator lets it go on.
void Gate::await(std::unique_lock<std::mutex>& lock, uint64_t group) {
  const int64_t since = nowNs();
  waits_++;
  while (promised_ && group > *promised_) {
    changed_.wait_for(lock, std::chrono::milliseconds(1));
    if (unreached_ && promised_ && !broken_) broken_.emplace(*unreached_);
    throwIfBroken();
    if (!aborted_) continue;
    lock.unlock();
    const bool aborted = aborted_();
    lock.lock();
    if (aborted) broken_.emplace(rank_, address_, "aborted while it waited at group " + std::to_string(group));
    throwIfBroken();
  }
  waitedNs_ += static_cast<uint64_t>(nowNs() - since);
}

void Gate::lease(uint64_t group) {
  const int64_t now = coarseNs();
  const int64_t took = now - leasedAt_;
  leasedAt_ = now;
  if (took <= kLeaseLongNs) {
    leaseSize_ = std::min(leaseSize_ * 2, kMostLeased);
  } else if (took > kLeaseTooLongNs) {
    leaseSize_ = std::max<uint64_t>(leaseSize_ / 2, 1);
  }
  uint64_t end = std::min(group + leaseSize_ - 1, (group / kStride + 1) * kStride - 1);
  if (promised_) end = std::min(end, *promised_);
  if (!pending_.empty()) end = std::min(end, pending_.front().first - 1);
  seen_ = group;
  leased_ = std::max(end, group);
  lease_.store(leased_, std::memory_order_relaxed);
  if (now - measuredAt_ >= kMeasureNs) measure(group, now);
}

/// Ranks that replay CUDA graphs enter nothing for long, and what they capture next should follow the newest decision.
/// After the fence the enqueuing thread either sees that its lease is gone, or has said which group it enters.
void Gate::takeBack() {
  lease_.store(0, std::memory_order_relaxed);
  if (fenceAllThreads()) leased_ = entered_.load(std::memory_order_relaxed);
}

void Gate::measure(uint64_t group, int64_t now) {
  perNsBefore_ = perNs_;
  perNs_ = static_cast<double>(group - measuredGroup_) / static_cast<double>(now - measuredAt_);
  measuredGroup_ = group;
  measuredAt_ = now;
}

uint64_t Gate::margin(int64_t windowNs) const {
  if (coarseNs() - leasedAt_ > kStaleNs) return 0;
  const int64_t age = nowNs() - measuredAt_;
  double rate = std::max(perNs_, perNsBefore_);
  if (age > kStaleNs) rate = static_cast<double>(leased_ - measuredGroup_) / static_cast<double>(age);
  const double groups = std::min(rate * static_cast<double>(windowNs), static_cast<double>(kMostMargin));
  return std::max(static_cast<uint64_t>(std::ceil(groups)), kLeastMargin);
}

Promise Gate::promise(uint64_t index, int64_t windowNs) {
  const std::lock_guard lock(mutex_);
  takeBack();
  const uint64_t last = std::max(index, leased_ + margin(windowNs));
  promised_ = last;
  return {seen_, last, history_};
}

void Gate::commit(Decision decision) {
  {
    const std::lock_guard lock(mutex_);
    promised_.reset();
    while (!pending_.empty() && pending_.back().first >= decision.first) pending_.pop_back();
    pending_.push_back(std::move(decision));
  }
  changed_.notify_all();
}

void Gate::withdraw() {
  {
    const std::lock_guard lock(mutex_);
    promised_.reset();
  }
  changed_.notify_all();
}

void Gate::unreached(std::optional<AgreementBroken> why) {
  const std::lock_guard lock(mutex_);
  unreached_ = std::move(why);
}

void Gate::fail(const AgreementBroken& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_) broken_.emplace(why);
    lease_.store(0, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

uint64_t Gate::ahead(int64_t windowNs) {
  const std::lock_guard lock(mutex_);
  takeBack();
  return leased_ + margin(windowNs);
}

size_t Gate::pending() const {
  const std::lock_guard lock(mutex_);
  // Those that the next group takes are in force, though nobody came to take them yet.
  return static_cast<size_t>(std::count_if(pending_.begin(), pending_.end(),
                                           [this](const Decision& decision) { return decision.first > leased_ + 1; }));
}

GateStats Gate::stats() const {
  const std::lock_guard lock(mutex_);
  return {waits_, waitedNs_};
}

}  // namespace r2cc::agree
