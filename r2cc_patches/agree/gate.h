// Where the enqueuing thread meets the agreement. It enters groups under a lease, a number of groups that it may enter
// without looking; the background thread promises only groups beyond the lease, or takes back what is not used of it.
// So the enqueuing thread needs no fence, and a group costs one atomic read.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "agree/history.h"
#include "base/fence_all.h"
#include "base/process_life.h"

namespace r2cc::agree {

/// What all ranks do from group `first` on. Epoch 0 with an empty text: nothing was agreed yet.
struct Decision {
  uint64_t epoch = 0;
  uint64_t first = 1;
  std::string text;
};

/// This rank cannot go on. what() says the whole of it.
class AgreementBroken : public std::runtime_error {
 public:
  AgreementBroken(int rank, std::string address, std::string cause);
  int rank() const { return rank_; }                       // who is not heard of; this rank itself if aborted
  const std::string& address() const { return address_; }  // and where it was
  const std::string& cause() const { return cause_; }

 private:
  int rank_;
  std::string address_, cause_;
};

/// What a rank answers to Prepare.
struct Promise {
  uint64_t entered = 0;  // groups entered for certain
  uint64_t last = 0;     // it enters no group after this one before it has heard
  History history;
};

struct GateStats {
  uint64_t waits = 0, waitedNs = 0;
};

/// Groups are numbered from 1. Invariant: the enqueuing thread enters no group beyond lease_, and leases are never
/// given beyond a promise or across the first group of a decision.
class Gate {
 public:
  /// `rank` and `address` are this rank's own; `aborted` may be empty.
  Gate(int rank, std::string address, std::function<bool()> aborted);

  // ---- the enqueuing thread
  const Decision& enter(uint64_t history) {
    const uint64_t group = entered_.load(std::memory_order_relaxed) + 1;
    entered_.store(group, std::memory_order_relaxed);
    fenceByOthers();  // takeBack()
    // Relaxed is enough: whatever else may have changed holds only beyond the lease, and is read under the mutex.
    if (group <= lease_.load(std::memory_order_relaxed)) return current_;
    return enterSlowly(group, history);
  }
  void captured() { captures_++; }

  // ---- the background thread
  /// Promises max(index, what was leased plus what this rank may enter within `windowNs` at its pace).
  Promise promise(uint64_t index, int64_t windowNs);
  /// From `decision.first` on; ends the promise. `decision.first` lies beyond it. An earlier decision that would hold
  /// from the same group on, or a later one, never comes into force: so it is on all ranks, as whoever had entered that
  /// group would have promised a later one.
  void commit(Decision decision);
  /// Ends the promise: everything stays as it is.
  void withdraw();
  /// Nothing can end a promise now; null: it can again. Where enter() stands at one it throws that, nowhere else.
  void unreached(std::optional<AgreementBroken> why);
  /// enter() throws this from now on. The first one stays.
  void fail(const AgreementBroken& why);
  /// The first group that a switch named now should not come before.
  uint64_t ahead(int64_t windowNs);
  /// Decisions that are committed and not yet in force.
  size_t pending() const;
  GateStats stats() const;

 private:
  const Decision& enterSlowly(uint64_t group, uint64_t history);
  void await(std::unique_lock<std::mutex>& lock, uint64_t group);
  void lease(uint64_t group);
  void takeBack();
  void measure(uint64_t group, int64_t now);
  uint64_t margin(int64_t windowNs) const;
  void throwIfBroken() const;

  // The enqueuing thread's own, but for takeBack().
  std::atomic<uint64_t> entered_{0};
  uint64_t captures_ = 0;
  uint64_t leaseSize_ = 1;
  Decision current_;
  // Written under the mutex: by the enqueuing thread, and by takeBack() and fail(), which take the lease away (0).
  std::atomic<uint64_t> lease_{0};

  const int rank_;
  const std::string address_;
  const std::function<bool()> aborted_;
  const unsigned process_;    // in a child of it, which has no background thread, locks may be held for ever
  mutable std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  int64_t leasedAt_ = 0;
  uint64_t leased_ = 0;  // the furthest group that may have been entered
  uint64_t seen_ = 0;    // the furthest that certainly was
  History history_;
  std::optional<uint64_t> promised_;
  std::deque<Decision> pending_;
  std::optional<AgreementBroken> broken_, unreached_;
  uint64_t waits_ = 0, waitedNs_ = 0;
  uint64_t measuredGroup_ = 0;
  int64_t measuredAt_ = 0;
  double perNs_ = 0;  // groups per nanosecond, of the faster of the last two measurements
  double perNsBefore_ = 0;
};

}  // namespace r2cc::agree
