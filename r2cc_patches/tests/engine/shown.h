// What a host of a rig is told that its NICs can carry.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

#include "check.h"
#include "rig/faults.h"

namespace r2cc::fake {

constexpr int64_t kShownNs = msToNs(15000);
using Shown = std::vector<double>;

inline Shown healthOf(const Rig& rig, int host) {
  std::vector<R2ccNicHealth> nics(8);
  const int count = rig.health(host).read(nics.data(), 8);
  Shown out;
  for (int i = 0; i < count; i++) out.push_back(nics[static_cast<size_t>(i)].capacity);
  return out;
}

/// What was shown instead is said.
inline bool shows(const Rig& rig, int host, const Shown& wanted) {
  Shown shown;
  const bool did = Rig::within(kShownNs, [&] { return (shown = healthOf(rig, host)) == wanted; });
  if (!did) {
    std::fprintf(stderr, "host %d shows", host);
    for (const double capacity : shown) std::fprintf(stderr, " %g", capacity);
    std::fprintf(stderr, "\n");
  }
  return did;
}

}  // namespace r2cc::fake
