#include "health/locator.h"

#include <algorithm>
#include <string>

namespace r2cc {
namespace {

constexpr int64_t kQuestionEveryNs = msToNs(10);  // between two rounds of questions
constexpr int64_t kHeardNs = msToNs(40);          // heard this lately: it works
constexpr int64_t kAfterNs = msToNs(10);          // what was under way at the death may arrive until then
constexpr int64_t kLocateNs = msToNs(160);        // after the death everybody has been asked, several times
static_assert(kHeardNs + kAfterNs < kAssociationNs, "what the peer says of its NIC is about the time after the death");

const char* where(bool localWorks, bool remoteWorks) {
  if (localWorks) return remoteWorks ? "link" : "remote_nic";
  return remoteWorks ? "local_nic" : "unknown";
}

}  // namespace

void Locator::onSilentDeath(Peer& peer, Path& path, int64_t now) {
  path.locate = true;
  path.blame = Blame::Nobody;
  path.localWorks = path.remoteWorks = false;
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
    for (const auto& path : peer->paths()) {
      if (peer->weConnect && path->data && path->local == nic) path->suspect(now);
    }
  }
}

void Locator::tick(int64_t now) {
  if (std::any_of(askUntil_.begin(), askUntil_.end(), [now](int64_t until) { return now < until; })) {
    shared_.agenda.restUntil(now);
  }
  if (now - lastAsked_ < kQuestionEveryNs) return;
  lastAsked_ = now;
  uint32_t heard = 0;
  for (size_t nic = 0; nic < heardNs_.size(); nic++) heard |= now - heardNs_[nic] < kHeardNs ? uint32_t{1} << nic : 0;
  shared_.self.nicsHeard = heard;
  for (const auto& [key, peer] : shared_.peers) {
    for (const auto& path : peer->paths()) {
      if (path->locate) locate(*peer, *path, now);
      if (path->data && path->linked && now < askUntil_[path->local]) peer->ping(*path, kNoRound, now);
    }
  }
}

void Locator::locate(const Peer& peer, Path& path, int64_t now) {
  path.localWorks |= heardNs_[path.local] > path.diedAt() + kAfterNs;
  const bool heardThere = (peer.remoteHeard >> peer.remote()[path.remote].dev & 1) != 0;
  path.remoteWorks |= heardThere && now - path.diedAt() > kHeardNs + kAfterNs;
  if (now - path.diedAt() < kLocateNs) return;
  path.locate = false;
  report_.changed();
  if (path.localWorks != path.remoteWorks) path.blame = path.localWorks ? Blame::Remote : Blame::Local;
  const std::string place = where(path.localWorks, path.remoteWorks);
  const std::string& nic = shared_.nics[path.local].name;
  shared_.info("R2CC: silence between " + nic + " and peer " + peer.describe() + ": " + place);
  auto line = shared_.events.line("nic");
  line.add("nic", nic).add("peer", peer.describe()).add("peer_nic", peer.remote()[path.remote].dev);
  line.add("state", "located").add("cause", "probe").add("where", place);
}

}  // namespace r2cc
