#include "status/drains.h"

#include <utility>

namespace r2cc {
namespace {
constexpr int64_t kLeavingAgainNs = msToNs(250);
constexpr int64_t kStayAgainNs = msToNs(1000);
constexpr int kTimesEverywhere = 8;  // after a change: datagrams get lost
constexpr size_t kTurns = 4;         // then so many ticks until all have been told again: there may be thousands
}  // namespace

void Drains::want(uint32_t nics, int64_t now) {
  const uint32_t changed = nics_ ^ nics;
  if (changed == 0) return;
  nics_ = nics;
  version_++;
  saysLeft_ = kTimesEverywhere;
  next_ = now + kLeavingAgainNs;
  for (size_t nic = 0; nic < shared_.nics.size(); nic++) {
    if ((changed >> nic & 1) == 0) continue;
    const std::string& name = shared_.nics[nic].name;
    shared_.events.line("nic").add("nic", name).add("state", leaving(nic) ? "draining" : "up").add("cause", "drain");
    shared_.info("R2CC: " + name +
                 (leaving(nic) ? " is to go away (r2cc drain): its connections move to others"
                               : " stays (r2cc undrain): its connections come back"));
  }
  report_.changed();
  for (const auto& [key, peer] : shared_.peers) mark(*peer);
  say();
}

/// To those who send to us: it is for them to move. What we send is ours to move. Some hear it late, or join: it is
/// said for as long as we run, also that a NIC stays.
void Drains::say() {
  const bool everywhere = saysLeft_ > 0;
  if (everywhere) saysLeft_--;
  turn_ = (turn_ + 1) % kTurns;
  size_t index = 0;
  for (const auto& [key, peer] : shared_.peers) {
    if (peer->weConnect) continue;
    if (everywhere) {
      peer->tellEverywhere(Leaving{nics_, version_});
    } else if (index++ % kTurns == turn_) {
      peer->tell(Leaving{nics_, version_});
    }
  }
  shared_.peers.flushOutboxes();
}

void Drains::onLeaving(Peer& peer, const Leaving& message) {
  if (message.version < peer.leavingVersion || message.nics == peer.remoteLeaving) return;
  peer.leavingVersion = message.version;
  peer.remoteLeaving = message.nics;
  theirs_ |= message.nics != 0;
  mark(peer);
}

void Drains::mark(Peer& peer) const {
  for (const auto& path : peer.paths()) {
    const bool theirs = (peer.remoteLeaving >> peer.remote()[path->remote].dev & 1) != 0;
    const bool leaves = leaving(path->local) || theirs;
    if (std::exchange(path->leaving, leaves) != leaves) peer.plansVersion++;
  }
}

void Drains::tick(int64_t now) {
  if ((version_ == 0 && !theirs_) || now < next_) return;
  next_ = now + (nics_ != 0 || saysLeft_ > 0 || theirs_ ? kLeavingAgainNs : kStayAgainNs);
  for (const auto& [key, peer] : shared_.peers) mark(*peer);
  if (version_ > 0) say();
}

}  // namespace r2cc
