// Takes all that has arrived on a lane, where one call may take less of it than there is: a socket's read does.
#pragma once

#include "lanes/lane.h"

namespace r2cc {

/// What is here is here at once, but a transport may have read more than it hands out in one call.
constexpr int kIdleTries = 4;

inline int64_t unread(const Lane& lane) {
  return lane.inner.ops->unread == nullptr ? 0 : lane.inner.ops->unread(lane.comm);
}

/// Calls `again` until it says false, or so many calls in a row have found nothing more to read.
template <typename Again>
void whileUnread(const Lane& lane, const Again& again) {
  int64_t left = unread(lane);
  for (int idle = 0; idle < kIdleTries && again();) {
    const int64_t now = unread(lane);
    idle = now == left ? idle + 1 : 0;
    left = now;
  }
}

}  // namespace r2cc
