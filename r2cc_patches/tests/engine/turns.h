// Whether hosts of a rig were on time. While a silence is located both ends speak every 10 ms. On a busy machine they
// get to it seldom, and read late what was sent before: then "unknown" or "link" may be said of any silence, for good.
// On time they have to find it.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <initializer_list>

#include "base/clock.h"
#include "rig/rig.h"

namespace r2cc::fake {

/// `once` makes a silence and says whether it was located, which on a busy machine it is not each time.
inline bool onceOnTime(const std::function<bool()>& once) {
  bool done = false;
  for (int i = 0; i < 20 && !done; i++) done = once();
  return done;
}

class Turns {
 public:
  /// Must outlive the rig. Before rig.start().
  void watch(Rig& rig) {
    rig.spy = [this](int host, const NicAddress&, const std::vector<uint8_t>&) { speaks(static_cast<size_t>(host)); };
  }
  void begin() {
    for (std::atomic<int64_t>& turns : turns_) turns = 0;
    sinceNs_ = runNs();
  }
  /// Since begin() each of these spoke in three quarters of the turns that there were.
  bool onTime(std::initializer_list<int> hosts) const {
    const int64_t all = (runNs() - sinceNs_) / kTurnNs;
    for (const int host : hosts) {
      if (4 * turns_[static_cast<size_t>(host)] < 3 * all) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kTurnNs = msToNs(10);
  void speaks(size_t host) {
    const int64_t now = runNs();
    int64_t last = lastNs_[host];
    if (now - last >= kTurnNs && lastNs_[host].compare_exchange_strong(last, now)) turns_[host]++;
  }
  std::array<std::atomic<int64_t>, 8> turns_{}, lastNs_{};
  int64_t sinceNs_ = 0;
};

}  // namespace r2cc::fake
