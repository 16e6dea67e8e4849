// One path (local NIC, remote NIC) to a peer and what we know of its health. Engine thread only, except state().
//
//   Up -> Suspect      traffic on it stands still (Peer says so)
//   Suspect -> Up      traffic moves again
//   Suspect -> Dead    probes on it stay silent while probes on another data path are answered
//   any -> Dead        a NIC of it lost its link
//   Dead -> Probation  both NICs up and a probe answered
//   Probation -> Up    answered steadily for the probation time (doubled by each recent failure)
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "clock.h"

namespace r2cc {

enum class PathState : uint8_t { Up, Suspect, Dead, Probation };

constexpr int64_t kRoundNs = msToNs(4);        // between two probes of a suspect path
constexpr int kMissesToDie = 6;                // silent rounds, each answered elsewhere
constexpr int64_t kDeadPingNs = msToNs(20);    // between two probes of a dead path
constexpr int64_t kProbationNs = msToNs(100);  // the first return; doubles with every recent failure
constexpr int kMaxDoublings = 6;               // 6.4 s at most
constexpr int64_t kForgiveNs = msToNs(60000);  // failures older than this no longer count
constexpr int64_t kProbationSilenceNs = msToNs(80);

class Path {
 public:
  Path(uint8_t local, uint8_t remote, bool data) : local(local), remote(remote), data(data) {}

  const uint8_t local;   // index of the local NIC
  const uint8_t remote;  // index in the peer's NIC list
  const bool data;       // false: side channel only, never evidence

  PathState state() const { return state_.load(std::memory_order_relaxed); }
  bool up() const { return state() == PathState::Up || state() == PathState::Suspect; }

  /// Every transition is one of these; each returns true when the state changed.
  /// Said on every tick while a link is down. The first probe then waits a little after the link is back: the switch
  /// may not forward yet, and the kernel repeats a lost ARP request only after a second.
  bool linkLost(int64_t now) {
    lastPing = now;
    linked = false;
    return die(now);
  }
  bool stalled(bool standsStill) {
    if (state() == PathState::Up && standsStill) return misses_ = 0, set(PathState::Suspect);
    if (state() == PathState::Suspect && !standsStill) return set(PathState::Up);
    return false;
  }
  /// One probe round is over: was it answered here, and was it answered on another data path?
  bool round(bool answered, bool answeredElsewhere, int64_t now) {
    if (state() != PathState::Suspect) return false;
    if (answered) misses_ = 0;
    if (answered || !answeredElsewhere) return false;  // a late peer is silent everywhere: no evidence
    return ++misses_ >= kMissesToDie && die(now);
  }
  bool pong(int64_t now) {
    lastPong = now;
    misses_ = 0;
    if (state() != PathState::Dead) return false;
    probationSince_ = now;
    return set(PathState::Probation);
  }
  bool probationTick(int64_t now) {
    if (state() != PathState::Probation) return false;
    if (now - lastPong > kProbationSilenceNs) return set(PathState::Dead);
    return now - probationSince_ >= probationNs() && set(PathState::Up);
  }
  /// Our own thread was late: what looked like silence was us.
  void forgetMisses() { misses_ = 0; }
  int64_t probationNs() const { return kProbationNs << std::min(std::max(failures_ - 1, 0), kMaxDoublings); }

  uint32_t pingRound = 0, pongRound = 0;  // last probe sent and answered
  int64_t lastPing = 0, lastPong = 0;
  bool linked = true;     // both NICs have their link, as far as we know
  int64_t lastHeard = 0;  // anything genuine came over it

 private:
  bool set(PathState next) {
    state_.store(next, std::memory_order_relaxed);
    return true;
  }
  bool die(int64_t now) {
    if (state() == PathState::Dead) return false;
    // A path that fails again before it was trusted again is the same failure, counted on.
    failures_ = now - lastDeath_ > kForgiveNs ? 1 : failures_ + 1;
    lastDeath_ = now;
    return set(PathState::Dead);
  }
  std::atomic<PathState> state_{PathState::Up};
  int misses_ = 0;
  int failures_ = 0;
  int64_t lastDeath_ = INT64_MIN / 2;
  int64_t probationSince_ = 0;
};

}  // namespace r2cc
