// What this process lived through so far: for its status file, and for the line at its end. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace r2cc {

/// The time in which at least one of several was in some state.
class Span {
 public:
  void begin(int64_t now) {
    if (count_++ == 0) since_ = now;
  }
  void end(int64_t now) {
    if (--count_ == 0) total_ += now - since_;
  }
  int64_t totalNs(int64_t now) const { return total_ + (count_ > 0 ? now - since_ : 0); }

 private:
  int count_ = 0;
  int64_t since_ = 0, total_ = 0;
};

/// How long connections stood still, one entry each time.
struct Stalls {
  static constexpr std::array<int64_t, 12> kBoundsMs{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30000};
  std::array<uint64_t, kBoundsMs.size() + 1> counts{};  // of each bound; the last are longer than all of them
  int64_t sumNs = 0;

  void add(int64_t ns) {
    size_t i = 0;
    while (i < kBoundsMs.size() && ns > msToNs(kBoundsMs[i])) i++;
    counts[i]++;
    sumNs += ns;
  }
};

class Tally {
 public:
  struct Counts {
    std::map<std::string, uint64_t> failovers;  // by cause, of connections
    uint64_t failbacks = 0;
    uint64_t lost = 0;  // connections without any path for longer than they were held
    Stalls stalls;
    Span stalled, held;
  };
  struct NicBytes {
    std::atomic<uint64_t> sent{0}, received{0};
  };
  static constexpr size_t kNics = 32;

  void failover(const std::string& cause) {
    change([&](Counts& c) { c.failovers[cause]++; });
  }
  void failback() {
    change([](Counts& c) { c.failbacks++; });
  }
  void lost() {
    change([](Counts& c) { c.lost++; });
  }
  /// A connection stops, and goes on (or ends) after `ns`, in which it had something to do or not.
  void stops(int64_t now) {
    change([now](Counts& c) { c.stalled.begin(now); });
  }
  void goesOn(int64_t now, int64_t ns) {
    change([=](Counts& c) {
      c.stalled.end(now);
      c.stalls.add(ns);
    });
  }
  void holds(int64_t now, bool begins) {
    change([=](Counts& c) { begins ? c.held.begin(now) : c.held.end(now); });
  }
  Counts counts() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counts_;
  }
  /// Of lanes that are closed.
  std::array<NicBytes, kNics> closed;

 private:
  template <class F>
  void change(F how) {
    const std::lock_guard<std::mutex> lock(mutex_);
    how(counts_);
  }
  mutable std::mutex mutex_;
  Counts counts_;
};

}  // namespace r2cc
