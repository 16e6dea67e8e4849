// Tells all communicators of a process when a NIC of this host changed. One thread, while there is a communicator.
#pragma once

#include <functional>

namespace r2cc::schedules {

class HealthWatch {
 public:
  /// Throws std::system_error where there can be no thread; then `who` is not told anything.
  static void add(const void* who, std::function<void()> tell);
  /// Returns when `who` is not being told anything any more. Nothing to do for one that was not added.
  static void remove(const void* who);
};

}  // namespace r2cc::schedules
