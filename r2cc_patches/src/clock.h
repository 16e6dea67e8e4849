// Monotonic time. Wall clocks jump and must never drive a timeout.
#pragma once

#include <cstdint>
#include <ctime>

namespace r2cc {

inline int64_t nowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

constexpr int64_t usToNs(int64_t us) { return us * 1000; }
constexpr int64_t msToNs(int64_t ms) { return ms * 1000000; }

}  // namespace r2cc
