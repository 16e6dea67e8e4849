// Where the engine writes what its NICs can carry, and any thread reads it (r2cc_health.h).
#pragma once

#include <atomic>
#include <map>
#include <mutex>
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

/// Who knows says it of what its thread connects from now on: other communicators may connect at the same time. Where
/// nobody says anything, all that is connected while a schedule connects is a schedule's.
void connectsForSchedules(bool yes);
bool threadConnectsForSchedules();

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
    if (begins >= 0) made_ = like;
    connects_ += begins;
  }
  /// What a connection is that is made now.
  ScheduleConnection scheduleConnection() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return connects_ > 0 && threadConnectsForSchedules() ? made_ : ScheduleConnection{};
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
  int connects_ = 0;  // threads that connect for schedules
  ScheduleConnection made_;
  bool failTogether_ = false;
};

/// The process's own.
HealthBoard& healthBoard();

}  // namespace r2cc
