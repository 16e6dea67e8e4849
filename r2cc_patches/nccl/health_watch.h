// Tells all communicators of a process when a NIC of this host changed. One thread, while there is a communicator.
#pragma once

#include <memory>

namespace r2cc::schedules {

class Schedules;

class HealthWatch {
 public:
  static void add(Schedules* who);
  /// Returns when `who` is not being told anything any more.
  static void remove(Schedules* who);
};

}  // namespace r2cc::schedules
