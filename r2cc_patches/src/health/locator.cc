#include "health/locator.h"

#include <algorithm>
#include <string>
#include <utility>

namespace r2cc {
namespace {

constexpr int64_t kQuestionEveryNs = msToNs(10);  // between two rounds of questions
constexpr int64_t kHeardNs = msToNs(40);          // heard this lately: it works
constexpr int64_t kAfterNs = msToNs(10);          // what was under way at the death may arrive until then
constexpr int64_t kLocateNs = msToNs(160);        // then everybody has been asked, several times
constexpr int kMostAsks = 4;                      // so many times that long, where too little is known
constexpr int kRefutations = 16;                  // of a blame, by as many ticks: a path that is well is up by then
constexpr int kReports = 4;                       // of the other end, of eleven: its silence over a NIC is no chance
static_assert(kHeardNs + kAfterNs < kAssociationNs, "what the peer says of its NIC is about the time after the death");

const char* where(const Path& path, Blame blame) {
  if (blame == Blame::Nobody) return path.localWorks && path.remoteWorks ? "link" : "unknown";
  return blame == Blame::Local ? "local_nic" : "remote_nic";
}

/// By the other end's own word: somebody is heard over its NIC.
bool hears(const Peer& peer, const Path& path) { return (peer.remoteHeard >> peer.remote()[path.remote].dev & 1) != 0; }

/// Of what this round found. That nothing is heard over the other end's NIC is only known from its own reports.
Blame blamed(const Path& path) {
  if (path.localWorks == path.remoteWorks) return Blame::Nobody;
  if (path.remoteWorks) return Blame::Local;
  return path.reports >= kReports ? Blame::Remote : Blame::Nobody;
}

}  // namespace

void Locator::onSilentDeath(Peer& peer, Path& path, int64_t now) {
  path.blame = Blame::Nobody;
  path.asks = 0;
  ask(peer, path, now);
}

void Locator::ask(Peer& peer, Path& path, int64_t now) {
  path.asks++;
  path.askedAt = now;
  path.localWorks = path.remoteWorks = false;
  path.reports = 0;
  suspectAllOf(path.local, now);
  // The peer sends over that NIC too, to us and to others: it is to look, whether or not it has traffic there.
  peer.tellEverywhere(PathDead{path.local, peer.remote()[path.remote].dev});
}

void Locator::onPathDead(const Peer& peer, const PathDead& message) {
  if (message.remoteDev >= shared_.nics.size()) return;
  Path* path = peer.pathOf(message.remoteDev, message.localDev);
  if (path == nullptr) return;
  // What still comes over it may be all that works of it: answers go elsewhere until it answered us.
  path->doubt(runNs());
  suspectAllOf(message.remoteDev, runNs());
}

void Locator::onLookAt(const Peer& peer, const LookAt& message) {
  for (const auto& path : peer.paths()) {
    if (path->data && peer.remote()[path->remote].dev == message.dev) path->suspect(runNs());
  }
}

/// All paths over this NIC are probed for a while, those to it by whoever sends over them: one detection moves every
/// connection of a dead NIC, idle ones too.
void Locator::suspectAllOf(size_t nic, int64_t now) {
  const bool known = now < askUntil_[nic];
  askUntil_[nic] = now + kAssociationNs;
  for (const auto& [key, peer] : shared_.peers) {
    if (!peer->weConnect && !known) peer->tellEverywhere(LookAt{static_cast<uint8_t>(nic)});
  }
  suspectOurs(uint32_t{1} << nic, now);
}

/// `nics`: a bit each.
void Locator::suspectOurs(uint32_t nics, int64_t now) {
  for (const auto& [key, peer] : shared_.peers) {
    for (const auto& path : peer->paths()) {
      if (peer->weConnect && path->data && (nics >> path->local & 1) != 0) path->suspect(now);
    }
  }
}

void Locator::tick(int64_t now) {
  if (std::any_of(askUntil_.begin(), askUntil_.end(), [now](int64_t until) { return now < until; })) {
    shared_.agenda.restUntil(now);
  }
  if (now - lastAsked_ < kQuestionEveryNs) return;
  const int64_t since = std::exchange(lastAsked_, now);
  uint32_t heard = 0;
  for (size_t nic = 0; nic < heardNs_.size(); nic++) heard |= now - heardNs_[nic] < kHeardNs ? uint32_t{1} << nic : 0;
  shared_.self.nicsHeard = heard;
  uint32_t silent = 0;  // nobody was heard over it since a path died: of one to a late host that must be found, too
  for (const auto& [key, peer] : shared_.peers) {
    bool asks = false;  // then it is to answer over its other NICs, too: what it says of this one is wanted
    for (const auto& path : peer->paths()) {
      if (path->asks > 0) {
        locate(*peer, *path, since, now);
      } else if (path->askedAt != 0 && path->state() == PathState::Dead && !path->diedByLink()) {
        reconsider(*peer, *path, since);
        silent |= path->localWorks ? 0 : uint32_t{1} << path->local;
      }
      asks |= path->asks > 0;
    }
    for (const auto& path : peer->paths()) {
      if (path->data && path->linked && (asks || now < askUntil_[path->local])) peer->ping(*path, kNoRound, now);
    }
  }
  if (silent != 0) suspectOurs(silent, now);
}

/// `since`: the last time.
void Locator::locate(Peer& peer, Path& path, int64_t since, int64_t now) {
  path.localWorks |= heardNs_[path.local] > path.askedAt + kAfterNs;
  if (peer.lastHeard > std::max(since, path.askedAt + kHeardNs + kAfterNs)) {
    path.reports++;
    path.remoteWorks |= hears(peer, path);
  }
  if (now - path.askedAt < kLocateNs) return;
  report_.changed();
  const Blame blame = blamed(path);
  const bool known = blame != Blame::Nobody || (path.localWorks && path.remoteWorks);
  if (known || path.asks == kMostAsks || path.state() != PathState::Dead) return say(peer, path, blame);
  ask(peer, path, now);
}

/// Whoever was late when a NIC was blamed, or behind another fault, may be heard over it again: then the path is lost,
/// not the NIC.
void Locator::reconsider(const Peer& peer, Path& path, int64_t since) {
  const bool worksHere = heardNs_[path.local] > since;
  path.localWorks |= worksHere;
  if (path.blame == Blame::Nobody) return;
  const bool works = path.blame == Blame::Local ? worksHere : peer.lastHeard > since && hears(peer, path);
  if (!works || ++path.refutations < kRefutations) return;
  path.localWorks = path.remoteWorks = true;
  report_.changed();
  say(peer, path, Blame::Nobody);
}

void Locator::say(const Peer& peer, Path& path, Blame blame) {
  path.asks = path.refutations = 0;
  path.blame = blame;
  const std::string place = where(path, blame);
  const std::string& nic = shared_.nics[path.local].name;
  shared_.info("R2CC: silence between " + nic + " and peer " + peer.describe() + ": " + place);
  auto line = shared_.events.line("nic");
  line.add("nic", nic).add("peer", peer.describe()).add("peer_nic", peer.remote()[path.remote].dev);
  line.add("state", "located").add("cause", "probe").add("where", place);
}

}  // namespace r2cc
