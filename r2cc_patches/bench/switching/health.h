// What this rank's NICs can carry, and a thread that hears of changes.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/options.h"

namespace r2cc::bench {

struct NicState {
  double capacity = 1;  // 0 to 1
  double rateGbit = 0;  // 0: unknown
};

// The net library's word on its NICs (r2cc_health.h).
struct Health {
  std::function<std::vector<NicState>()> read;  // in the order of its devices; nothing while it does not say
  std::function<void(int, bool)> loadUnevenly;  // a schedule does so on purpose: it begins, follows another or ends
  std::function<void(int)> connects;            // what is connected from now on belongs to schedules, with this turn
};

// Empty functions where that library has none of them. `forSchedules`: what is connected belongs to schedules.
Health loadHealth(const std::string& library, bool forSchedules);

// Calls `look` every few milliseconds, on a thread of its own.
class HealthWatch {
 public:
  explicit HealthWatch(std::function<void()> look);
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

 private:
  std::atomic<bool> end_{false};
  std::thread thread_;  // last: it looks at end_
};

}  // namespace r2cc::bench
