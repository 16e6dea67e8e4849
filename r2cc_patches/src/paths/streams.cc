#include "paths/streams.h"

#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "nic/bind_nic.h"

namespace r2cc {
namespace {

constexpr int64_t kStrangerNs = msToNs(3000);
constexpr size_t kMostStrangers = 64;
constexpr int kMostAtOnce = 16;  // accepted

}  // namespace

void Streams::accept(size_t nic, bool acks) {
  const Fd& door = acks ? shared_.side.ackListenFds()[nic] : shared_.side.listenFds()[nic];
  for (int i = 0; i < kMostAtOnce; i++) {
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    const int fd = accept4(door.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    (void)keepOnNic(fd, shared_.nics[nic].name);
    (void)adopt(std::make_shared<SideStream>(fd, nic, NicAddress::from(from), acks));
  }
}

SideStreamPtr Streams::connect(Peer& peer, Path& path, bool acks, bool freely) {
  SideStreamPtr stream = SideStream::connect(shared_.nics[path.local], peer.remote()[path.remote], acks, freely);
  if (stream == nullptr) return nullptr;
  stream->peer = &peer;
  stream->path = &path;
  return adopt(stream) ? stream : nullptr;
}

/// Its descriptor is unique as long as it is in the map. Too many strangers: the oldest has to go.
bool Streams::adopt(const SideStreamPtr& stream) {
  if (!waiter(*stream).add(stream->fd(), kTagStream + static_cast<uint64_t>(stream->fd()))) return false;
  streams_[stream->fd()] = stream;
  SideStreamPtr oldest;
  size_t strangers = 0;
  for (const auto& [fd, s] : streams_) {
    if (s->peer != nullptr) continue;
    strangers++;
    if (oldest == nullptr || s->sinceNs < oldest->sinceNs) oldest = s;
  }
  if (strangers > kMostStrangers) close(oldest);
  return true;
}

SideStreamPtr Streams::find(int fd) const {
  const auto found = streams_.find(fd);
  return found == streams_.end() ? nullptr : found->second;
}

bool Streams::claim(const SideStreamPtr& stream, Peer& peer, bool rests) {
  if (stream->peer != nullptr && stream->peer != &peer) return false;
  const bool first = stream->peer == nullptr || stream->rests;
  if (first) stream->path = peer.findByAddress(stream->nic, stream->from);
  if (stream->path == nullptr) return false;
  stream->peer = &peer;
  peer.streamed = true;
  stream->rests = first && rests;
  if (stream->rests) {
    closeOlder(*stream);
    return true;
  }
  peer.streams = true;
  StreamSlot& slot = stream->acks ? stream->path->acks : stream->path->control;
  const SideStreamPtr old = slot.get();
  if (old != nullptr && first && (!old->ours || !old->up())) close(old);
  if (!slot.used()) slot.set(stream);
  return true;
}

/// The other end keeps one a path. An older one is gone there, and its FIN was lost: nothing else would ever end it.
void Streams::closeOlder(const SideStream& newer) {
  std::vector<SideStreamPtr> older;
  for (const auto& [fd, s] : streams_) {
    if (s.get() == &newer || !s->rests || s->ours || s->acks != newer.acks) continue;
    if (s->peer == newer.peer && s->path == newer.path) older.push_back(s);
  }
  for (const SideStreamPtr& s : older) close(s);
}

void Streams::close(const SideStreamPtr& stream) {
  waiter(*stream).remove(stream->fd());
  streams_.erase(stream->fd());
  if (stream->peer != nullptr && !stream->rests) stream->peer->streamEndedNs = runNs();
  if (stream->path == nullptr) return;
  if (stream->path->spare == stream) stream->path->spare = nullptr;
  if (stream->path->knocks == stream) stream->path->knocks = nullptr;
  StreamSlot& slot = stream->acks ? stream->path->acks : stream->path->control;
  if (slot.get() == stream) slot.set(nullptr);
}

void Streams::closeOf(Path& path) {
  for (const SideStreamPtr& s : {path.control.get(), path.acks.get()}) {
    if (s != nullptr) close(s);
  }
  if (const SideStreamPtr asks = path.knocks) close(asks);
  path.askedNs = 0;
  path.udpProofs = path.tcpProofs = 0;
}

void Streams::closeOf(const Peer& peer) {
  std::vector<SideStreamPtr> its;
  for (const auto& [fd, stream] : streams_) {
    if (stream->peer == &peer) its.push_back(stream);
  }
  for (const SideStreamPtr& stream : its) close(stream);
}

void Streams::endStrangers(int64_t now) {
  if (now < nextSweep_) return;
  nextSweep_ = now + kStrangerNs / 4;
  std::vector<SideStreamPtr> over;
  for (const auto& [fd, s] : streams_) {
    if (s->peer == nullptr && now - s->sinceNs > kStrangerNs) over.push_back(s);
  }
  for (const SideStreamPtr& s : over) close(s);
}

size_t Streams::resting() const {
  return static_cast<size_t>(
      std::count_if(streams_.begin(), streams_.end(), [](const auto& s) { return s.second->rests; }));
}

}  // namespace r2cc
