// How a test of two hosts ends where nothing may be left behind.
#pragma once

#include "check.h"
#include "rig/door.h"
#include "rig/rig.h"

namespace r2cc::fake {

/// Everything is through, nothing was done wrong, and nothing is left.
inline void finishClean(Rig& rig, int64_t limitNs) {
  CHECK(rig.allDone(limitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.fabric.healAll();
  rig.closeStreams();
  rig.endEngine(0), rig.endEngine(1);
  CHECK(rig.fabric.counts().clean());
  CHECK(rig.fabric.violations().empty());
}

/// The clock leaps while nobody waits for an answer, for that would be late.
inline void leap(Rig& rig, int64_t ns, int64_t limitNs) {
  constexpr int64_t kLatelyNs = msToNs(5000);
  const auto rests = [&] {
    return !EngineDoor::awaits(rig.engine(0), kLatelyNs) && !EngineDoor::awaits(rig.engine(1), kLatelyNs);
  };
  CHECK(Rig::within(limitNs, rests));
  runClock.lost(-ns);
  CHECK(Rig::within(limitNs, rests));
}

}  // namespace r2cc::fake
