// Takes all that has arrived on a lane, where one call may take less of it than there is: a socket's read does.
#pragma once

#include "lanes/lane.h"

namespace r2cc {

/// What is here is here at once, but a transport may have read more than it hands out in one call.
constexpr int kIdleTries = 4;

inline int64_t unread(const Lane& lane) {
  return lane.inner.ops->unread == nullptr ? 0 : lane.inner.ops->unread(lane.comm);
}

/// Calls `again` until it says false, or so many calls in a row have found nothing more to read. Only what lies here at
/// the beginning is waited for: a peer that is told to send no more, and goes on byte by byte, holds nobody up.
template <typename Again>
void whileUnread(const Lane& lane, const Again& again) {
  int64_t left = unread(lane);
  int64_t owed = left;  // of what lay here at the beginning, at most: what comes meanwhile hides some of what is read
  for (int idle = 0; idle < kIdleTries && again();) {
    const int64_t now = unread(lane);
    if (now < left) owed -= left - now;
    idle = now == left || owed <= 0 ? idle + 1 : 0;
    left = now;
  }
}

}  // namespace r2cc
