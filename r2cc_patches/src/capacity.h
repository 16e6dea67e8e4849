// What the paths to one peer can carry, measured on the traffic that is there: bytes over the time in which the network
// was what a lane waited for. A path is degraded when it is slower than its siblings for a while, so that a peer that
// is late, a busy machine or a small job, which slow all paths alike, never look like a bad NIC. Engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "path.h"

namespace r2cc {

constexpr int64_t kWindowNs = msToNs(100);

class Capacities {
 public:
  /// Traffic of one lane since the last call for it.
  void add(const Path& path, uint64_t bytes, int64_t busyNs);
  /// True when a window is over and its traffic is to be added now.
  bool due(int64_t now) const { return now - last_ >= kWindowNs; }
  /// Closes the window and judges. Returns the paths whose `capacity` changed by enough to act on.
  std::vector<Path*> close(const std::vector<std::unique_ptr<Path>>& paths, int64_t now);
  /// Somebody else found a NIC of this path slow: less of our own evidence is enough for a while. True when there is
  /// enough already, and `capacity` changed.
  bool agree(Path& path, int64_t now);
  /// Enough traffic was seen on it to say that it is whole.
  bool knows(const Path& path) const;

 private:
  static constexpr size_t kWindows = 5;
  struct Account {
    uint64_t bytes = 0;                    // in this window, all lanes
    int64_t busyNs = 0;                    // of the busiest lane
    bool waitedFor = false;                // by its connections, in the last window
    std::array<double, kWindows> rates{};  // bytes per ns in the last windows that said something
    size_t count = 0;                      // windows ever
    int64_t lastNs = 0;                    // when the newest was
    double sustained = 0;                  // the best of lately in which it hardly rested
    int64_t sustainedNs = 0;               // when that was
    int slow = 0, fair = 0, full = 0;      // windows in a row
    double measured = 1.0;                 // beside its siblings, in the last window
    int64_t othersUntil = 0;               // somebody else saw it, too
    int easy = 0;                          // windows in a row in which others had to work, and it had not
  };
  static double median(const Account& account);
  static void sustain(Account& account, double rate, int64_t now);
  /// What a sibling shows that a path can carry. One that rests now and then may seem faster than its wire: a shaper
  /// (token bucket) lets through at once what it saved up meanwhile.
  static double shown(const Account& account, int64_t now);
  static bool judge(Path& path, Account& account, double reference, int64_t now);
  static bool settle(Path& path, Account& account, int64_t now);
  /// A weak path that is not even busy with the little it is given may be well again: it is given more.
  static bool trust(Path& path, Account& account);
  std::map<const Path*, Account> accounts_;
  int64_t last_ = 0;
};

}  // namespace r2cc
