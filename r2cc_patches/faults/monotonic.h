// The run's clock.
#pragma once

#include <cstdint>
#include <ctime>

namespace r2cc::faults {

inline int64_t monotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace r2cc::faults
