#include "record/ticks.h"

#include <algorithm>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace r2cc {

bool TickClock::counterIsSteady() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kPowerLeaf = 0x80000007, kInvariantBit = 8;
  if (__get_cpuid(kPowerLeaf, &a, &b, &c, &d) == 0 || (d >> kInvariantBit & 1) == 0) return false;
  // A kernel that found counters of several sockets apart from each other no longer uses them itself.
  std::ifstream source("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  source >> name;
  return name == "tsc" || name == "kvm-clock" || name.rfind("hyperv", 0) == 0;
#else
  return false;
#endif
}

TickClock::TickClock(bool trusted) : counter_(trusted) { anchor(); }

/// The two clocks as close to each other as one can read them: the tightest of a few tries.
TickClock::Anchor TickClock::sample() const {
  Anchor best{};
  int64_t tightest = INT64_MAX;
  for (int i = 0; i < 3; i++) {
    const int64_t before = nowNs();
    const uint64_t ticks = now();
    const int64_t after = nowNs();
    if (after - before >= tightest) continue;
    tightest = after - before;
    best = {ticks, before + (after - before) / 2};
  }
  return best;
}

void TickClock::anchor() {
  if (!counter_ && !anchors_.empty()) return;
  const Anchor next = sample();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!anchors_.empty() && next.ticks <= anchors_.back().ticks) return;
  if (anchors_.size() > kAnchors) anchors_.erase(anchors_.begin() + 1);
  anchors_.push_back(next);
}

int64_t TickClock::toNs(uint64_t ticks) const {
  if (!counter_) return static_cast<int64_t>(ticks);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (anchors_.size() < 2) return anchors_.front().ns;
  const auto later = [&](const Anchor& a) { return a.ticks > ticks; };
  auto to = std::find_if(anchors_.begin() + 1, anchors_.end() - 1, later);
  const Anchor &from = *(to - 1), &end = *to;
  const double rate = static_cast<double>(end.ns - from.ns) / static_cast<double>(end.ticks - from.ticks);
  // Signed: a record may be older than the first anchor of the pair.
  return from.ns + static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(ticks - from.ticks)) * rate);
}

}  // namespace r2cc
