#include "health/judge.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "data/recv_connection.h"
#include "data/send_connection.h"

namespace r2cc {
namespace {

// A live host says "no such port" on every path, and nothing else is heard for so long. One path says little: a
// firewall answers so, and where NICs share a subnet it may be the wrong NIC that was asked.
constexpr int64_t kRefusalSilenceNs = msToNs(800), kLongSilenceNs = msToNs(1100);
// The same after a lane or a stream of it ended: then every path has refused a connection since.
constexpr int64_t kDeathNs = msToNs(10);
// A silent peer that owes us something is asked whether it lives; several times before it is given up.
constexpr int64_t kSilentAskNs = msToNs(500), kSilentAgainNs = msToNs(250);
constexpr int64_t kCallNs = msToNs(1000), kCallsInHold = 4;
constexpr int kAlternates = 2;  // healthy paths probed beside a suspect one
constexpr int64_t kProbationPingNs = msToNs(10);

/// Whether a refusal is to be had there: a path over which nothing ever came may lead nowhere, and one that was lost
/// before may be a black hole.
bool couldTell(const Peer& peer, const Path& path) {
  if (!path.linked || path.use == PathUse::SideOnly || path.awayBefore(peer.lastHeard)) return false;
  return path.heard() || !peer.known;
}

/// A firewall answers for UDP alone, and the kernel would have ended the stream with its process. Where that end was
/// lost on its way, the kernel confirms nothing any more: so does that of a live process behind a black hole, which is
/// told by the path, and after a long silence by the others.
bool vouches(const SideStream& stream, const Peer& peer, const Path& path, bool longSilent) {
  const bool endLost = longSilent || path.refusesNow() || path.awayBefore(peer.lastHeard);
  return !stream.refused() && !(endLost && stream.unconfirmedNs() > kSilentAskNs);
}

/// Every path that could tell says that nobody listens there any more, and no stream says otherwise. `longSilent`: one
/// that says nothing at all may have been a black hole before anybody used it, and refusals may come in by another NIC,
/// unheard. It is enough that one path refuses now: by the NIC that says so, a live process would have answered.
bool allRefuse(const Peer& peer, bool longSilent) {
  bool any = false;
  const bool knows = std::any_of(peer.paths().begin(), peer.paths().end(), [](const auto& p) { return p->heard(); });
  for (const auto& path : peer.paths()) {
    if (!path->linked || (knows && !path->heard())) continue;
    const SideStreamPtr stream = path->control.get();
    if (stream != nullptr && stream->up() && vouches(*stream, peer, *path, longSilent)) return false;
    if (!couldTell(peer, *path)) continue;
    if (!path->refused && !longSilent) return false;
    any |= longSilent ? path->refusesNow() : path->refused;
  }
  return any;
}

/// Since `since` each path that could tell was asked for a connection, and refused it. Where NICs share a subnet, a
/// refusal may come in by another one, unheard: then it is enough that such a path refuses UDP now. A stream that is up
/// contradicts while the other kernel confirms what it is told there.
bool allRefuseTcp(const Peer& peer, int64_t since, int64_t now) {
  bool any = false;
  for (const auto& path : peer.paths()) {
    if (!couldTell(peer, *path)) continue;
    const SideStreamPtr stream = path->control.get();
    const bool refusesTcp = path->tcpRefusedNs >= since;
    const bool endLost = refusesTcp && now - since > kStuckNs && stream != nullptr && stream->stuck();
    if ((!refusesTcp && !path->refusesNow()) || (stream != nullptr && stream->up() && !endLost)) return false;
    any |= refusesTcp;
  }
  return any;
}

void askAll(Peer& peer, int64_t now) {
  peer.lastAsked = now;
  for (const auto& path : peer.paths()) {
    if (path->linked) peer.ping(*path, kNoRound, now);
  }
}

/// Something came over a path that was asked, which ends the question; a process that is being ended may still say it.
bool answeredSince(const Peer& peer, int64_t asked) {
  const auto& paths = peer.paths();
  return std::any_of(paths.begin(), paths.end(), [&](const auto& p) { return p->linked && p->lastHeard >= asked; });
}

/// What was tried by TCP before was about something else; a connection that is not made yet goes on as the first.
void askAnew(Path& path) {
  const SideStreamPtr stream = path.control.get();
  path.nextStream = 0;
  path.streamTries = stream != nullptr && !stream->up() ? 1 : 0;
}

/// A connection that has waited since the last call without a message getting through.
void askIfStuck(Connection& connection) {
  if (connection.over() || !connection.hasOutstanding()) return;
  if (!connection.movedSinceAsked()) connection.ask();
}

bool owesUs(const Peer& peer) {
  const auto owes = [](const auto& c) { return !c.second->over() && c.second->isOwed(); };
  const auto connects = [](const auto& c) { return !c.second->over() && !c.second->everActive(); };
  return std::any_of(peer.sends.begin(), peer.sends.end(), owes) ||
         std::any_of(peer.sends.begin(), peer.sends.end(), connects) ||
         std::any_of(peer.receivesById.begin(), peer.receivesById.end(), owes);
}

/// Of a process that has ended. One that lacks something for good did not end well, whatever the others still wait for:
/// data that was lost is sent again by its kernel for long.
bool nothingMoreComes(const Peer& peer) {
  const auto& all = peer.receivesById;
  const auto waits = [](const auto& c) { return !c.second->over() && c.second->hasOutstanding(); };
  return std::any_of(all.begin(), all.end(), [&](const auto& c) { return waits(c) && c.second->lacksForGood(); }) ||
         std::all_of(all.begin(), all.end(), [&](const auto& c) { return !waits(c) || c.second->lanesEnded(); });
}

void failAll(Peer& peer, const std::string& why) {
  for (const auto& [id, connection] : peer.sends) connection->fail(why);
  for (const auto& [id, connection] : peer.receivesById) connection->fail(why);
}

}  // namespace

// ---- paths ------------------------------------------------------------------------------------------------------

bool Judge::lostLink(const Peer& peer, const Path& path) const {
  const bool remoteDown = (peer.remoteUp >> peer.remote()[path.remote].dev & 1) == 0;
  return !path.within && (!shared_.linkUp(path.local) || remoteDown);
}

void Judge::judgePaths(Peer& peer, int64_t now) {
  std::vector<Path*> lost;  // all of them first: nothing goes on over one that is lost as well
  for (const auto& path : peer.paths()) {
    if (path->use == PathUse::SideOnly) continue;
    if (lostLink(peer, *path)) {
      if (path->linkLost(now, !shared_.linkUp(path->local))) lost.push_back(path.get());
    } else {
      if (!std::exchange(path->linked, true)) path->nextStream = path->streamTries = 0;
      probeUnused(peer, *path, now);
    }
  }
  for (Path* path : lost) pathDown(peer, *path, shared_.linkUp(path->local) ? "peer" : "netlink");
  if (!peer.weConnect || !suspects(peer, now)) return;
  shared_.agenda.probing();
  if (now - peer.lastRound < peer.roundEveryNs(now)) return;
  judgeProbed(peer, now);
  probeRound(peer, now);
}

/// Whether any path is suspect now.
bool Judge::suspects(Peer& peer, int64_t now) const {
  std::vector<const Path*> stuck;
  for (const auto& [id, connection] : peer.sends) {
    if (const Path* path = connection->stalledPath(now)) stuck.push_back(path);
  }
  bool any = false;
  for (const auto& path : peer.paths()) {
    path->stalled(std::find(stuck.begin(), stuck.end(), path.get()) != stuck.end(), now);
    any |= path->state() == PathState::Suspect;
  }
  return any;
}

/// By the newest round of probes that was answered anywhere, however long the peer took for it.
void Judge::judgeProbed(Peer& peer, int64_t now) {
  std::vector<Path*> silent;  // all of them first: what is lost may make paths of its own
  for (const auto& path : peer.paths()) {
    uint32_t answeredElsewhere = 0;
    for (const auto& other : peer.paths()) {
      if (other != path && other->data) answeredElsewhere = std::max(answeredElsewhere, other->pongRound);
    }
    if (path->state() != PathState::Suspect) continue;
    // Asked for before it is needed: the second way takes a while to be made.
    const bool certain = !path->missed() || secondWay_.silent(peer, *path, now);
    if (path->round(answeredElsewhere, peer.answerNs(now), now, certain)) silent.push_back(path.get());
  }
  for (Path* path : silent) {
    pathDown(peer, *path, "probe");
    locator_.onSilentDeath(peer, *path, now);
  }
}

/// On every suspect path and on a few others at the same time.
void Judge::probeRound(Peer& peer, int64_t now) {
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
void Judge::probeUnused(Peer& peer, Path& path, int64_t now) {
  if ((path.up() && !path.doubted()) || !peer.counts(path)) return;
  const int64_t every = path.state() == PathState::Probation ? kProbationPingNs : kDeadPingNs;
  if (now - path.lastPing >= every) {
    probes_++;
    peer.ping(path, kNoRound, now);
  }
  if (!path.probationTick(now)) return;
  if (path.up()) path.blame = Blame::Nobody;
  peer.plansVersion++;
  report_.path(peer, path, path.up() ? "up" : "down", "probation");
}

void Judge::pathDown(Peer& peer, Path& path, const std::string& cause) {
  shared_.agenda.lookSoon();
  path.capacity = 1.0;  // what it can carry is found out anew when it is back
  streams_.closeOf(path);
  peer.plansVersion++;
  report_.path(peer, path, "down", cause);
  for (const auto& [id, connection] : peer.sends) connection->onPathDown(&path, cause);
}

void Judge::onRemoteLinks(Peer& peer, const Header& header) {
  if (header.nicsVersion <= peer.remoteVersion) return;
  peer.remoteVersion = header.nicsVersion;
  if (header.nicsUp == peer.remoteUp) return;
  peer.remoteUp = header.nicsUp;
  judgePaths(peer, runNs());
}

/// Also where the news of its being down was missed.
void Judge::onMoved(Peer& peer, Path& path) {
  if (path.use == PathUse::SideOnly) return;
  path.nextStream = path.streamTries = 0;
  path.refused = false;  // by the old address
  path.tcpRefusedNs = INT64_MIN / 2;
  if (path.linkLost(runNs(), false)) pathDown(peer, path, "peer");
}

// ---- peers ------------------------------------------------------------------------------------------------------

int64_t Judge::callNs() const { return std::min(kCallNs, shared_.holdNs / kCallsInHold); }

/// The other end's kernel confirms what we say to it, over TCP: its host lives, and so does its process, which does not
/// run. Stock waits for such a one, and so do we.
bool Judge::stoppedOnly(const Peer& peer, int64_t now) const {
  const int64_t lately = std::max(kCallNs * 3, shared_.holdNs / 2);
  const int64_t asked = callNs();  // a short hold time asks sooner, and has no more time to wait for an answer
  return std::any_of(peer.paths().begin(), peer.paths().end(), [&](const auto& path) {
    const SideStreamPtr stream = path->control.get();
    return stream != nullptr && stream->up() && now - stream->sinceNs > asked && stream->quietNs() < lately;
  });
}

/// Two witnesses: a lane or stream of it ended, as all do when a process does, and asked at once, all its ports refuse.
/// A live process's ports take connections, and it answers by UDP or by TCP, whatever else is lost. What one that ended
/// well sent before is waited for.
bool Judge::ended(Peer& peer, int64_t now) {
  // The first of this silence: lanes are found broken one by one, and what was refused meanwhile counts.
  if (peer.lastHeard > peer.firstBrokeNs + kStragglersNs)
    peer.firstBrokeNs = peer.brokeNs.load(std::memory_order_relaxed);
  const int64_t broke = peer.firstBrokeNs;
  if (peer.lastHeard > broke + kStragglersNs) return false;
  if (peer.lastAsked < broke || (now - peer.lastAsked > kStragglersNs && answeredSince(peer, peer.lastAsked))) {
    for (const auto& path : peer.paths()) askAnew(*path);
    askAll(peer, now);  // the second way asks by TCP, sooner where UDP is refused
  }
  shared_.agenda.restUntil(now);
  if (now - std::max(broke, peer.lastHeard) < kDeathNs || !allRefuseTcp(peer, broke, now)) return false;
  if (!peer.streamed) return false;  // a firewall may refuse all TCP to us but the lanes
  return nothingMoreComes(peer);
}

void Judge::watchSilence(Peer& peer, int64_t now) {
  const int64_t callNs = this->callNs();
  if (!owesUs(peer)) {
    peer.lastHeard = std::max(peer.lastHeard, now - callNs);
    peer.owedSince = 0;
    return;
  }
  if (peer.owedSince == 0) peer.owedSince = now;
  const int64_t silent = now - peer.lastHeard;
  const int64_t waited = now - std::max(peer.lastHeard, peer.owedSince);
  const bool broke = ended(peer, now);
  if (broke || (waited > kRefusalSilenceNs && allRefuse(peer, /*longSilent=*/false)) ||
      (waited > kLongSilenceNs && allRefuse(peer, /*longSilent=*/true))) {
    return failAll(peer, "the process of peer " + peer.describe() + " is gone (" +
                             (broke ? "its lanes broke, and " : "") + "its host refuses its ports)");
  }
  if (waited > kSilentAskNs && now - peer.lastAsked >= kSilentAgainNs) askAll(peer, now);
  if (silent > shared_.holdNs && !stoppedOnly(peer, now)) {
    const std::string nics = peer.linkedNics();
    return failAll(peer, "peer " + peer.describe() + " is silent on every path" +
                             (nics.empty() ? "" : " (" + nics + ")") + " for " +
                             std::to_string(shared_.holdNs / 1000000) + " ms (R2CC_HOLD_MS)");
  }
  if (now - peer.lastCalled < callNs) return;
  peer.lastCalled = now;
  if (silent >= callNs) return askAll(peer, now);
  // The process answers, but its end of a connection may be closed and the word of it lost.
  for (const auto& [id, c] : peer.sends) askIfStuck(*c);
  for (const auto& [id, c] : peer.receivesById) askIfStuck(*c);
}

}  // namespace r2cc
