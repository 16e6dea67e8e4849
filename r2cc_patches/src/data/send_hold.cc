// The sending end while it carries nothing: for how long it may, and what is said of it. Engine thread, under the
// engine's mutex.
#include <algorithm>

#include "data/send_connection.h"

namespace r2cc {
namespace {
constexpr int64_t kAnswersNs = msToNs(500);  // without an answer: it may be stopped
constexpr int64_t kSayNs = msToNs(1000);     // of trying in vain
constexpr int kPartOfHold = 4;               // and at most so much of the hold
constexpr int kRefusedOften = 2;  // lanes that a peer lets nobody make, before there was any: none is just late
constexpr int64_t kSlackNs = msToNs(1000);  // the receiver tells of a fence of its own that hangs
constexpr int64_t kMsNs = msToNs(1);

std::string ms(int64_t ns) { return std::to_string(ns / kMsNs) + " ms"; }
}  // namespace

/// A stopped process may be one for as long as stock would wait for it: only what passes while the peer answers counts.
Hold::Spent SendConnection::spent(int64_t now) const {
  if (state() == ConnectionState::Holding) return Hold::Spent::NoPath;
  const bool first = !everActive_ && state() == ConnectionState::Connecting && hold_.tries() >= kRefusedOften;
  const bool waits = state() == ConnectionState::Frozen || state() == ConnectionState::Exchanging;
  if (!first && (!waits || !everActive_ || fencing())) return Hold::Spent::Elsewhere;
  if (now - (first ? peer.lastHeard : peer.lastPong) > kAnswersNs) return Hold::Spent::Silence;
  return state() != ConnectionState::Exchanging ? Hold::Spent::NoLane : Hold::Spent::Exchange;
}

bool SendConnection::held() const { return hold_.noLaneNs() > std::min(kSayNs, services_.holdNs / kPartOfHold); }

/// "eth1: connect failed", or that it is still being made.
std::string SendConnection::refusedWhere() const {
  if (hold_.path() != nullptr) return nicName(hold_.path()) + ": " + hold_.why();
  return lanes_.empty() ? "none was tried" : nicName(lanes_.back()->path) + ": it is still being made";
}

/// The receiver needs no limit of its own: it hears our Bye, or asks and is answered with it.
void SendConnection::watchHold(int64_t now) {
  if (state() == ConnectionState::Active || over()) return;
  const Hold::Spent how = spent(now);
  hold_.look(how, now);
  if (how == Hold::Spent::NoLane && held()) sayHeld();
  const std::string limit = ms(services_.holdNs) + " (R2CC_HOLD_MS)";
  if (hold_.ns() <= services_.holdNs) return;
  if (how == Hold::Spent::NoPath) {
    const bool some = held();
    return fail("no path" +
                std::string(some ? ", or none that a lane could be made on (" + refusedWhere() + ")," : "") + " for " +
                limit + "; last cause: " + cause_);
  }
  // A path that has just returned is tried.
  if (how == Hold::Spent::NoLane && held()) {
    countFailover();
    return fail("a path is up, but no lane could be made on it for " + limit + " (" + refusedWhere() + ")");
  }
  const int64_t answerNs = std::max(services_.holdNs, kFenceLimitNs) + kSlackNs;
  if (how == Hold::Spent::Exchange && hold_.exchangeNs() > answerNs) {
    countFailover();
    fail("the peer did not say what it has for " + limit + ", though it answers; last cause: " + cause_);
  }
}

/// Once a peer: all its connections wait for the same.
void SendConnection::sayHeld() {
  if (!hold_.say() || std::exchange(peer.saidHeld, true)) return;
  const std::string before = lostBy_.empty() ? "" : "; lost before: " + lostBy_;
  services_.warn("R2CC: no lane can be made to peer " + peer.describe() + " although a path is up (" + refusedWhere() +
                 before + "): trying on for up to " + ms(services_.holdNs) +
                 " (R2CC_HOLD_MS). Are new connections let through?");
}

void SendConnection::endHold() {
  hold_.end();
  peer.saidHeld = false;
}

}  // namespace r2cc
