// A stream to each path that connections are on, which says nothing. UDP and new connections may be lost at once (a
// firewall that lets pass what is open), and a healthy job needs neither: then this stream is woken.
#include <algorithm>

#include "engine/engine.h"

namespace r2cc {
namespace {

constexpr int64_t kFirstSpareNs = msToNs(100), kNextSpareNs = msToNs(5000);
constexpr int64_t kSpareUpNs = msToNs(300);
constexpr size_t kMostSpares = 256;  // of a process: each is a descriptor at both ends

bool used(const Peer& peer, const Path& path) {
  return std::any_of(peer.sends.begin(), peer.sends.end(),
                     [&](const auto& entry) { return !entry.second->over() && entry.second->planPath() == &path; });
}

}  // namespace

void Engine::keepSpare(Peer& peer, Path& path, int64_t now) {
  if (path.nextSpare == 0) path.nextSpare = now + kFirstSpareNs;
  if (const SideStreamPtr spare = path.spare) {
    const bool late = !spare->up() && now - spare->sinceNs > kSpareUpNs;
    if (!path.up() || late) return closeStream(spare);
    if (!spare->greeted && spare->up()) introduce(peer, *spare);
    return;
  }
  if (now < path.nextSpare) return;
  path.nextSpare = now + kNextSpareNs;
  if (!peer.weConnect || !peer.known || !path.up() || path.udpHeard == 0 || !used(peer, path)) return;
  const auto resting = std::count_if(streams_.begin(), streams_.end(), [](const auto& s) { return s.second->rests; });
  if (static_cast<size_t>(resting) < kMostSpares) makeSpare(peer, path);
}

void Engine::makeSpare(Peer& peer, Path& path) {
  const SideStreamPtr spare =
      SideStream::connect(nics_[path.local], peer.remote()[path.remote], /*acks=*/false, /*freely=*/false);
  if (spare == nullptr) return;
  spare->peer = &peer;
  spare->path = &path;
  spare->rests = true;
  adopt(spare);
  if (streams_.count(spare->fd()) != 0) path.spare = spare;
}

/// Says whose it is, and nothing else.
void Engine::introduce(const Peer& peer, SideStream& spare) const {
  Datagram d = peer.datagram();
  d.add(Encoded{Type::Filler, std::vector<uint8_t>(1)});
  const std::vector<uint8_t>& bytes = d.seal(peer.key);
  if (side_.passes(spare.nic, spare.from, bytes, SideChannel::Way::Tcp)) spare.greeted = spare.send(bytes);
}

/// True: it is the path's stream now.
bool Engine::wakeSpare(Path& path, int64_t now) {
  const SideStreamPtr spare = std::exchange(path.spare, nullptr);
  if (spare == nullptr) return false;
  if (!spare->greeted || !spare->up()) return closeStream(spare), false;
  spare->rests = spare->greeted = false;
  spare->woken = true;
  spare->sinceNs = now;
  path.control.set(spare);
  return true;
}

}  // namespace r2cc
