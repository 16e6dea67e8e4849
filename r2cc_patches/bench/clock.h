// Time as every line of ours reports it: CLOCK_MONOTONIC in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace r2cc::bench {

inline uint64_t nowNs() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(ts.tv_nsec);
}

}  // namespace r2cc::bench
