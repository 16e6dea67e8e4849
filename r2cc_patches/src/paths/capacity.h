// What the paths to one peer can carry, measured on the traffic that is there: bytes over the time in which the network
// was what a lane waited for. A path is degraded when it is slower than its siblings for a while, so that a peer that
// is late, a busy machine or a small job, which slow all paths alike, never look like a bad NIC. Engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "paths/path.h"

namespace r2cc {

constexpr int64_t kWindowNs = msToNs(22);

class Capacities {
 public:
  /// Traffic of one lane since the last call for it. `clocked`: by its messages' completions, not by the kernel.
  void add(const Path& path, uint64_t bytes, int64_t busyNs, bool clocked = false);
  /// True when a window is over and its traffic is to be added now.
  bool due(int64_t now) const { return now - last_ >= windowNs_; }
  /// Closes the window and judges. Returns the paths whose `capacity` changed by enough to act on.
  std::vector<Path*> close(const std::vector<std::unique_ptr<Path>>& paths, int64_t now);
  /// Somebody else found a NIC of this path slow: less of our own evidence is enough for a while. True when there is
  /// enough already, and `capacity` changed.
  bool agree(Path& path, int64_t now);
  /// Whether what is sent to this NIC says that it is whole. (Acknowledgements may wait behind what the other end
  /// sends: two ends that spare different NICs would find each other right for ever.)
  void doubt(const Path& path, bool doubted);
  /// Somebody else found it whole again: earlier tries that were wrong no longer delay the next one.
  void hope(const Path& path, int64_t now);
  /// Enough traffic was seen on it to say that it is whole.
  bool knows(const Path& path) const;

 private:
  static constexpr size_t kWindows = 5, kLoads = 3;
  static constexpr size_t kCounted = 16, kKept = 64;  // samples that a rate is the mean of; where these are too small
  struct Sample {
    uint64_t bytes = 0;  // of all lanes
    int64_t busyNs = 0;  // of the busiest
    int64_t ns = 0;      // how long that took
    void operator+=(const Sample& other) { bytes += other.bytes, busyNs += other.busyNs, ns += other.ns; }
    double busy() const { return ns > 0 ? static_cast<double>(busyNs) / static_cast<double>(ns) : 0; }
    double rate() const { return busyNs > 0 ? static_cast<double>(bytes) / static_cast<double>(busyNs) : 0; }
  };
  struct Account {
    Sample window;                       // the one that is not over
    std::array<Sample, kLoads> loads{};  // the last windows: how busy it is
    size_t turn = 0;
    bool waitedFor = false;  // by its connections, of late
    Sample pooled;           // until there is enough to say how fast it was
    std::array<Sample, kKept> samples{};
    size_t count = 0;                    // of them ever
    int64_t lastNs = 0;                  // when the newest was
    double sustained = 0;                // the best of lately in which it hardly rested
    int64_t sustainedNs = 0;             // when that was
    int slow = 0, fair = 0, full = 0;    // samples in a row
    int better = 0;                      // than it is said to be
    int64_t othersUntil = 0;             // somebody else saw it, too
    int64_t slowSinceNs = 0;             // when it was last not slow
    int64_t fellNs = INT64_MIN / 2;      // when it last had to work and carried far less than it sustained
    int easy = 0;                        // for so long others had to work, and nobody waited for it
    int64_t raisedNs = 0;                // when it was last given more
    int64_t pauseNs = 0, raiseFrom = 0;  // after that was wrong
    double seemed = 0;                   // the most, beside its siblings, since it was last given more
    double refuted = 0;                  // the most that it seemed to carry when that was wrong
    bool clocked = false, doubted = false;
    int64_t weakNs = INT64_MIN / 2;  // when it was last called weak, or tried
    int64_t doubtNs = 0;             // and how long that is believed
  };
  bool note(int64_t window, int64_t now);
  static void pool(Account& account, int64_t now);
  /// Its newest samples together.
  static Sample last(const Account& account, size_t count);
  static Sample load(const Account& account);
  static double median(const Account& account);
  static bool silent(const Account& account);
  static void sustain(Account& account, int64_t now);
  /// What a sibling shows that a path can carry. One that rests now and then may seem faster than its wire: a shaper
  /// (token bucket) lets through at once what it saved up meanwhile.
  static double shown(const Account& account, int64_t now);
  double reference(int64_t now) const;
  bool allFell(const Account& judged, int64_t now) const;
  bool judge(Path& path, Account& account, double reference, int64_t now);
  static void count(const Path& path, Account& account, double reference, int64_t now);
  int needed(const Path& path, const Account& account, double reference, int64_t now) const;
  bool settle(Path& path, Account& account, double reference, int64_t now);
  static bool raise(Path& path, Account& account, double to, double seems, int64_t now);
  /// A weak path that nobody waits for with the little it is given may be well again: it is given more. (Each message's
  /// acknowledgement takes its time: one with little to do may seem slow.) So is one that is doubted, now and then.
  static bool trust(Path& path, Account& account, double reference, int64_t now);
  std::map<const Path*, Account> accounts_;
  int64_t last_ = 0;
  int64_t windowNs_ = kWindowNs;
  int64_t lanes_ = 0;  // that were added in this window
};

}  // namespace r2cc
