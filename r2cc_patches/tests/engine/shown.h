// What a host of a rig is told that its NICs can carry.
#pragma once

#include <cstdint>
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

inline bool shows(const Rig& rig, int host, const Shown& wanted) {
  return Rig::within(kShownNs, [&] { return healthOf(rig, host) == wanted; });
}

}  // namespace r2cc::fake
