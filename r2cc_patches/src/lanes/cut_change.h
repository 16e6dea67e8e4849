// When a connection that goes on over the same lanes is to cut its messages in another way. Near a threshold the better
// cut is now this, now that, and each change is a Switch: so the other one must be better for some time at every look.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "lanes/slicing.h"

namespace r2cc {

class CutChange {
 public:
  /// Asked at every look: whether messages that are cut in one way are now to be cut as is wanted.
  bool due(const Slicing& cut, const Slicing& wanted, int64_t now) {
    if (stillDoes(cut, wanted)) return offSince_ = kNever, false;
    offSince_ = std::min(offSince_, now);
    return now >= std::max(notBefore_, offSince_ + kSureNs);
  }
  /// A Switch begins for the cut alone.
  void changed(int64_t now) { offSince_ = kNever, notBefore_ = now + kAgainNs; }
  /// One begins for other lanes, and takes the cut along.
  void reset() { *this = {}; }

 private:
  static constexpr int64_t kSureNs = msToNs(100), kAgainNs = msToNs(500);
  static constexpr int64_t kNever = INT64_MAX - kSureNs;
  int64_t offSince_ = kNever;  // the cut has been off at every look since then
  int64_t notBefore_ = 0;
};

}  // namespace r2cc
