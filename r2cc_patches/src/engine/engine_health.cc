// Judgement: which paths live, which peers are gone, and who has to be told.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/engine_tags.h"

namespace r2cc {
namespace {

constexpr int kAnnouncements = 4;  // a change of links is said at once and on the next ticks
// For what progress threads do not acknowledge: the last copies of a burst, before they seem to stand still; and all of
// RDMA, where nobody else does.
constexpr int64_t kAckBackstopNs = msToNs(5), kAckAllNs = msToNs(1);
// A live host says "no such port" on every path, and nothing else is heard for so long. One path says little: a
// firewall answers so, and where NICs share a subnet it may be the wrong NIC that was asked.
constexpr int64_t kRefusalSilenceNs = msToNs(1000);
// A silent peer that owes us something is asked whether it lives; several times before it is given up.
constexpr int64_t kCallNs = msToNs(1000), kCallsInHold = 4;
constexpr int kAlternates = 2;  // healthy paths probed beside a suspect one
constexpr int64_t kProbationPingNs = msToNs(10);

/// Every path that could tell says that nobody listens there any more. A stream that is up says otherwise: a firewall
/// answers for UDP alone, and the kernel would have ended the stream with its process.
bool allRefuse(const Peer& peer) {
  bool any = false;
  for (const auto& path : peer.paths()) {
    if (!path->linked) continue;
    const SideStreamPtr stream = path->control.get();
    if (stream != nullptr && stream->up() && !stream->refused()) return false;
    if (path->use == PathUse::SideOnly) continue;
    if (!path->refused) return false;
    any = true;
  }
  return any;
}

}  // namespace

void Engine::tick(int64_t now) {
  // What looks like silence after a late tick may be us: no judgement until the next. Where every tick is late this
  // host is that slow, and judges all the same, or nothing is ever found.
  const bool late = std::exchange(late_, false);
  const bool excused = late && !wasLate_;
  wasLate_ = late;
  restUntil_ = INT64_MAX;
  probing_ = false;
  readAcks();
  events_.flush(nowNs());
  updateHealth(now);
  if (announcements_ > 0) announceLinks(), restUntil_ = now;
  announce(now);
  inquire(now);
  for (const auto& [key, peer] : peers_) {
    if (excused) peer->lastRound = now;
    tickPeer(*peer, now);
  }
  endStrangers(now);
  forgetAbandoned(now);
}

void Engine::tickPeer(Peer& peer, int64_t now) {
  judgePaths(peer, now);
  if (peer.weConnect && comparesRates() && peer.capacities.due(now)) measure(peer, now);
  for (const auto& [id, connection] : peer.sends) connection->tick(now);
  for (const auto& [id, connection] : peer.receivesById) connection->tick(now);
  tickStreams(peer, now);
  if (peer.acksDue.load(std::memory_order_relaxed) > 0 && nowNs() - peer.acksSinceNs >= ackBackstopNs()) {
    for (const Path* path : peer.best(1)) peer.flushAcks(*path);
  }
  watchSilence(peer, now);
  if (peer.weConnect) endLingering(peer, now);
  restUntil_ = std::min(restUntil_, restsUntil(peer, now));
}

int64_t Engine::ackBackstopNs() const { return threadsAck_ ? kAckBackstopNs : kAckAllNs; }

/// Until when nobody need look at this peer again; not after now where something is going on.
int64_t Engine::restsUntil(const Peer& peer, int64_t now) const {
  const bool acks = peer.acksDue.load(std::memory_order_relaxed) > 0;
  int64_t until = acks ? now + peer.acksSinceNs + ackBackstopNs() - nowNs() : INT64_MAX;
  bool calm = true;
  for (const auto& path : peer.paths()) calm &= path->state() == PathState::Up;
  if (!calm) until = now;
  for (const auto& [id, connection] : peer.sends) until = std::min(until, connection->restsUntil(now));
  return until;
}

void Engine::judgePaths(Peer& peer, int64_t now) {
  std::vector<Path*> lost;  // all of them first: nothing goes on over one that is lost as well
  for (const auto& path : peer.paths()) {
    if (path->use == PathUse::SideOnly) continue;
    const bool remoteDown = (peer.remoteUp >> peer.remote()[path->remote].dev & 1) == 0;
    if (!path->within && (!linkUp(path->local) || remoteDown)) {
      if (path->linkLost(now)) lost.push_back(path.get());
    } else {
      if (!std::exchange(path->linked, true)) path->nextStream = path->streamTries = 0;
      nursePath(peer, *path, now);
    }
  }
  for (Path* path : lost) pathDown(peer, *path, linkUp(path->local) ? "peer" : "netlink");
  if (!peer.weConnect) return;
  std::vector<const Path*> stuck;
  for (const auto& [id, connection] : peer.sends) {
    if (const Path* path = connection->stalledPath(now)) stuck.push_back(path);
  }
  bool suspects = false;
  for (const auto& path : peer.paths()) {
    bool standsStill = false;
    for (const Path* s : stuck) standsStill |= s == path.get();
    path->stalled(standsStill, now);
    suspects |= path->state() == PathState::Suspect;
  }
  probing_ |= suspects;
  if (suspects && now - peer.lastRound >= peer.roundEveryNs(now)) probeRound(peer, now);
}

/// Judges by the newest round of probes that was answered anywhere, however long the peer took for it; then sends the
/// next, on every suspect path and on a few others at the same time.
void Engine::probeRound(Peer& peer, int64_t now) {
  for (const auto& path : peer.paths()) {
    uint32_t answeredElsewhere = 0;
    for (const auto& other : peer.paths()) {
      if (other != path && other->data) answeredElsewhere = std::max(answeredElsewhere, other->pongRound);
    }
    if (path->state() != PathState::Suspect) continue;
    // Asked for before it is needed: the second way takes a while to be made.
    const bool certain = !path->missed() || silentByTcp(peer, *path, now);
    if (!path->round(answeredElsewhere, peer.answerNs(now), now, certain)) continue;
    pathDown(peer, *path, "probe");
    silentDeath(peer, *path, now);
  }
  peer.beginRound(now);
  int alternates = 0;
  const size_t count = peer.paths().size();
  for (size_t i = 0; i < count; i++) {
    // Begins elsewhere each time: the first alternates may be black holes themselves.
    const auto& path = peer.paths()[(i + peer.round) % count];
    const bool suspect = path->state() == PathState::Suspect;
    const bool lives = path->state() == PathState::Up || path->state() == PathState::Probation;
    if (!suspect && (!path->data || !lives || alternates == kAlternates)) continue;
    if (!suspect) alternates++;
    path->pinged(peer.round);
    probes_++;
    peer.ping(*path, peer.round, now);
  }
}

/// A dead path is asked now and then, and so is one in doubt; one that was dead is watched before it is trusted.
void Engine::nursePath(Peer& peer, Path& path, int64_t now) {
  if (path.up() && !path.doubted()) return;
  const int64_t every = path.state() == PathState::Probation ? kProbationPingNs : kDeadPingNs;
  if (now - path.lastPing >= every) {
    probes_++;
    peer.ping(path, kNoRound, now);
  }
  if (!path.probationTick(now)) return;
  peer.plansVersion++;
  pathEvent(peer, path, path.up() ? "up" : "down", "probation");
}

/// A connection that has waited since the last call without a message getting through.
void Engine::askIfStuck(Connection& connection) {
  if (connection.over() || !connection.hasOutstanding()) return;
  if (!connection.movedSinceAsked()) connection.ask();
}

int64_t Engine::callNs() const { return std::min(kCallNs, config_.holdNs / kCallsInHold); }

/// The other end's kernel confirms what we say to it, over TCP: its host lives, and so does its process, which does not
/// run. Stock waits for such a one, and so do we.
bool Engine::stoppedOnly(const Peer& peer, int64_t now) const {
  const int64_t lately = std::max(kCallNs * 3, config_.holdNs / 2);
  const int64_t asked = callNs();  // a short hold time asks sooner, and has no more time to wait for an answer
  return std::any_of(peer.paths().begin(), peer.paths().end(), [&](const auto& path) {
    const SideStreamPtr stream = path->control.get();
    return stream != nullptr && stream->up() && now - stream->sinceNs > asked && stream->quietNs() < lately;
  });
}

/// Nothing heard from a peer that owes us something: ask; after the hold time, give up.
void Engine::watchSilence(Peer& peer, int64_t now) {
  const int64_t callNs = this->callNs();
  bool waiting = false;
  for (const auto& [id, c] : peer.sends) waiting |= !c->over() && (c->hasOutstanding() || !c->everActive());
  for (const auto& [id, c] : peer.receivesById) waiting |= !c->over() && c->hasOutstanding();
  if (!waiting) {
    peer.lastHeard = std::max(peer.lastHeard, now - callNs);
    return;
  }
  const int64_t silent = now - peer.lastHeard;
  if (silent > kRefusalSilenceNs && allRefuse(peer)) {
    return failAll(peer, "the process of peer " + peer.describe() + " is gone (its host refuses its ports)");
  }
  if (silent > config_.holdNs && !stoppedOnly(peer, now)) {
    return failAll(peer, "peer " + peer.describe() + " is silent on every path for " +
                             std::to_string(config_.holdNs / 1000000) + " ms (R2CC_HOLD_MS)");
  }
  if (now - peer.lastCalled < callNs) return;
  peer.lastCalled = now;
  if (silent >= callNs) {
    for (const auto& path : peer.paths()) {
      if (path->linked) peer.ping(*path, kNoRound, now);
    }
    return;
  }
  // The process answers, but its end of a connection may be closed and the word of it lost.
  for (const auto& [id, c] : peer.sends) askIfStuck(*c);
  for (const auto& [id, c] : peer.receivesById) askIfStuck(*c);
}

void Engine::failAll(Peer& peer, const std::string& why) {
  for (const auto& [id, connection] : peer.sends) connection->fail(why);
  for (const auto& [id, connection] : peer.receivesById) connection->fail(why);
}

void Engine::reportLink(size_t nic, bool up) {
  const std::lock_guard<std::mutex> lock(mutex_);
  linkNews(nic, kNoCarrier, up, "netlink");
}

void Engine::onLink(size_t nic, bool up, const char* cause) {
  if (linkUp(nic) == up) return;
  const uint32_t bit = uint32_t{1} << nic;
  self_.nicsUp = up ? self_.nicsUp | bit : self_.nicsUp & ~bit;
  self_.nicsVersion++;
  healthChanged_ = true;
  events_.line("nic").add("nic", nics_[nic].name).add("state", up ? "up" : "down").add("cause", cause);
  if (flight_ != nullptr) flight_->nic(nic, up, cause);
  info_("R2CC: " + nics_[nic].name + (up ? " has its link back" : " lost its link: its connections go on over others"));
  announcements_ = kAnnouncements;
  announceUntil_ = runNs() + kAnnounceNs;  // what went to the lost NIC may be meant for another address
  // At once to those who send to us: it is for them to move. Those we send to hear it with the Freeze that moves ours.
  for (const auto& [key, peer] : peers_) {
    if (!peer->weConnect) announceLinksTo(*peer);
  }
  for (const auto& [key, peer] : peers_) judgePaths(*peer, runNs());
  flushOutboxes();
}

/// Every header carries our links; a ping is the smallest reason to send one.
void Engine::announceLinks() {
  announcements_--;
  for (const auto& [key, peer] : peers_) announceLinksTo(*peer);
}

void Engine::announceLinksTo(const Peer& peer) const {
  for (const Path* path : peer.best(3)) {
    if (linkUp(path->local)) peer.sendOn(*path, Ping{kNoRound});
  }
}

void Engine::seeRemoteLinks(Peer& peer, const Header& header) {
  if (header.nicsVersion <= peer.remoteVersion) return;
  peer.remoteVersion = header.nicsVersion;
  if (header.nicsUp == peer.remoteUp) return;
  peer.remoteUp = header.nicsUp;
  judgePaths(peer, runNs());
}

void Engine::pathDown(Peer& peer, Path& path, const std::string& cause) {
  lookSoon();
  path.capacity = 1.0;  // what it can carry is found out anew when it is back
  closeStreams(path);
  peer.plansVersion++;
  pathEvent(peer, path, "down", cause);
  for (const auto& [id, connection] : peer.sends) connection->onPathDown(&path, cause);
}

void Engine::pathEvent(const Peer& peer, const Path& path, const char* state, const std::string& cause) {
  healthChanged_ = true;
  // The sending end judges; two ends would say everything twice.
  if (!peer.weConnect || path.use == PathUse::SideOnly) return;
  if (flight_ != nullptr) {
    const auto now = static_cast<uint8_t>(path.state());
    flight_->path(path.local, peer.remote()[path.remote].dev, peer.describe(), now, cause);
  }
  auto line = events_.line("nic");
  line.add("nic", nics_[path.local].name).add("peer", peer.describe());
  line.add("peer_nic", peer.remote()[path.remote].dev).add("state", state).add("cause", cause);
}

}  // namespace r2cc
