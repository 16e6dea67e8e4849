// Where the engine writes what its NICs can carry, and any thread reads it (r2cc_health.h).
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "record/r2cc_health.h"

namespace r2cc {

/// What runs (r2ccUnevenLoad), as one of its connections sees it.
struct RunningSchedule {
  uint64_t number = 0;  // another one for each plan that came; 0: nothing loads NICs unevenly
  bool inTurn = false;
};

/// A connection that is made for a schedule (r2ccScheduleConnects).
struct ScheduleConnection {
  uint64_t schedule = 0;
  uint64_t window = 0;  // bytes; 0: it is made for none
  int turn = -1;
};

/// A schedule in few bits, above 0: so it travels with what is to be connected, to the thread that does it. Two
/// schedules of one process hardly ever have the same.
constexpr uint32_t kMarks = (1U << 23) - 1;
constexpr uint32_t markOf(uint64_t schedule) { return static_cast<uint32_t>(schedule % kMarks) + 1; }
constexpr uint32_t kNoSchedule = 0;

/// Who knows says what its thread connects for from now on, a mark or kNoSchedule: other communicators may connect at
/// the same time. Where nobody says anything, all that is connected while a schedule connects is that one's.
void connectsFor(uint32_t mark);
std::optional<uint32_t> threadConnectsFor();

class HealthBoard {
 public:
  /// An engine starts with these NICs; none: it ends.
  void open(std::vector<R2ccNicHealth> nics, bool failTogether = false);
  /// By NIC, in the order of open(). The version only changes when a capacity does.
  void set(const std::vector<double>& capacities);
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  int read(R2ccNicHealth* out, int most) const;
  bool failTogether() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failTogether_;
  }
  void uneven(int begins, uint64_t schedule, bool inTurn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    plans_++;
    Uneven& its = uneven_[schedule];  // of all its ranks in this process
    its.ranks += begins;
    if (begins >= 0) its.inTurn = inTurn;
    if (its.ranks <= 0) uneven_.erase(schedule);
  }
  RunningSchedule schedule(uint64_t asked = 0) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (uneven_.empty()) return {};
    const auto its = uneven_.find(asked);
    return {plans_, its != uneven_.end() && its->second.inTurn};
  }
  void scheduleConnects(int begins, ScheduleConnection like) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uint32_t mark = markOf(like.schedule);
    Connecting& its = connecting_[mark];
    its.ranks += begins;
    if (begins >= 0) its.like = like, latest_ = mark;
    if (its.ranks <= 0) connecting_.erase(mark);
  }
  /// What a connection is that this thread makes now.
  ScheduleConnection scheduleConnection() const {
    const std::optional<uint32_t> mark = threadConnectsFor();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto its = connecting_.find(mark.value_or(latest_));
    return its == connecting_.end() ? ScheduleConnection{} : its->second.like;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<R2ccNicHealth> nics_;
  std::atomic<uint64_t> version_{0};
  struct Uneven {
    int ranks = 0;
    bool inTurn = false;
  };
  std::map<uint64_t, Uneven> uneven_;  // schedules that load NICs unevenly
  uint64_t plans_ = 0;
  struct Connecting {
    int ranks = 0;  // in this process
    ScheduleConnection like;
  };
  std::map<uint32_t, Connecting> connecting_;  // by mark: schedules that are connected now
  uint32_t latest_ = kNoSchedule;
  bool failTogether_ = false;
};

/// The process's own.
HealthBoard& healthBoard();

}  // namespace r2cc
