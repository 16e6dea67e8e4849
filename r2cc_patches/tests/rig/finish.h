// How a test of two hosts ends where nothing may be left behind.
#pragma once

#include "check.h"
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

}  // namespace r2cc::fake
