// When the engine looks at everything again, and whether it came too late for that. Under the engine's mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/clock.h"

namespace r2cc {

class Agenda {
 public:
  /// When the next tick is due. Any thread.
  int64_t next() const { return next_; }
  /// Something is going on since the last tick.
  void lookSoon() { next_ = std::min(next_.load(), runNs() + kTickNs); }
  void lookAt(int64_t then) { next_ = then; }

  /// Before anything is judged or noted: time in which this process did not run counts for nothing. Where every tick is
  /// a little late this host is that slow, and time goes on all the same, or nothing would ever be found.
  void catchUp() {
    const int64_t lateNs = runNs() - next_;
    const uint32_t stops = runClock.stops();
    late_ |= stops != std::exchange(stops_, stops);
    if (next_ == 0 || lateNs <= kLateNs) return;
    late_ = true;
    if (!wasLate_ || lateNs > kStoppedNs) runClock.lost(lateNs);
  }

  /// True: what looks like silence may be us, as this tick is late; no judgement until the next. Where every tick is
  /// late this host is that slow, and judges all the same, or nothing is ever found.
  bool begin() {
    const bool late = std::exchange(late_, false);
    const bool excused = late && !wasLate_;
    wasLate_ = late;
    restUntil_ = INT64_MAX;
    probing_ = false;
    return excused;
  }
  /// Said during a tick: from then on there may be something to do.
  void restUntil(int64_t then) { restUntil_ = std::min(restUntil_, then); }
  /// Some path is suspect.
  void probing() { probing_ = true; }
  void end(int64_t now) {
    next_ = probing_ ? now + kProbingTickNs : std::clamp(restUntil_, now + kTickNs, now + kRestNs);
  }

 private:
  static constexpr int64_t kProbingTickNs = msToNs(1);  // a round of probes ends when it is due
  static constexpr int64_t kTickNs = msToNs(2);
  static constexpr int64_t kRestNs = msToNs(6);       // at most, where every path is up and every message on its way
  static constexpr int64_t kLateNs = msToNs(10);      // a tick this late means we were not running
  static constexpr int64_t kStoppedNs = msToNs(100);  // and this late, that it is not for want of speed
  std::atomic<int64_t> next_{0};
  int64_t restUntil_ = 0;
  bool probing_ = false;
  uint32_t stops_ = runClock.stops();
  bool late_ = false, wasLate_ = false;  // this process did not run lately: of the next tick, of the last
};

}  // namespace r2cc
