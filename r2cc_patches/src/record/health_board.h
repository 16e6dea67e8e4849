// Where the engine writes what its NICs can carry, and any thread reads it (r2cc_health.h).
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "record/r2cc_health.h"

namespace r2cc {

/// One that loads NICs unevenly (r2ccUnevenLoad).
struct RunningSchedule {
  uint64_t number = 0;  // another one for each that came; 0: there is none
  bool inTurn = false;
};

/// A connection that is made for schedules (r2ccScheduleConnects).
struct ScheduleConnection {
  uint64_t window = 0;  // bytes; 0: it is made for none
  int turn = 0;
};

class HealthBoard {
 public:
  /// An engine starts with these NICs; none: it ends.
  void open(std::vector<R2ccNicHealth> nics);
  /// By NIC, in the order of open(). The version only changes when a capacity does.
  void set(const std::vector<double>& capacities);
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  int read(R2ccNicHealth* out, int most) const;
  void uneven(int begins, bool inTurn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    uneven_ += begins;
    running_ = {running_.number + 1, inTurn};
  }
  RunningSchedule schedule() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return uneven_ == 0 ? RunningSchedule{} : running_;
  }
  void scheduleConnects(int begins, ScheduleConnection like) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (begins >= 0) made_ = like;
    connects_ += begins;
  }
  /// What a connection is that is made now.
  ScheduleConnection scheduleConnection() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return connects_ > 0 ? made_ : ScheduleConnection{};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<R2ccNicHealth> nics_;
  std::atomic<uint64_t> version_{0};
  int uneven_ = 0;           // schedules that load NICs unevenly
  RunningSchedule running_;  // the newest
  int connects_ = 0;         // threads that connect for schedules
  ScheduleConnection made_;
};

/// The process's own.
HealthBoard& healthBoard();

}  // namespace r2cc
