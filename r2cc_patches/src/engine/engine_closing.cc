// How connections, listens and peers end: when NCCL closes them, and when nobody asks for them any more.
#include <algorithm>
#include <chrono>

#include "engine/engine.h"

namespace r2cc {
namespace {

constexpr size_t kClosedRemembered = 4096;
constexpr int64_t kLingerAtEndNs = msToNs(2000);
constexpr int64_t kForgetEveryNs = msToNs(1000);
constexpr int64_t kAbandonedNs = msToNs(30000);  // NCCL asks for a connection again and again until it is there
constexpr int64_t kLeftNs = msToNs(60000);       // long enough for every question that may still be on its way

}  // namespace

void Engine::closeSend(void* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* connection = static_cast<SendConnection*>(static_cast<Connection*>(comm));
  Peer& peer = connection->peer;
  connection->linger(runNs() + config_.holdNs);
  endLingering(peer, runNs());  // the connection may be gone now
  peer.flushOutbox();
}

/// Ends the closed ones whose copies the peer has, or will not have any more.
void Engine::endLingering(Peer& peer, int64_t now) {
  for (auto it = peer.sends.begin(); it != peer.sends.end();) {
    const auto& next = *it++;
    if (!next.second->lingers() || !next.second->lingered(now)) continue;
    const std::shared_ptr<SendConnection> connection = next.second;
    if (now >= connection->lingersUntil()) connection->fail("closed, and what was sent before was not acknowledged");
    peer.tell(connection->bye());
    connection->shutdown();
    failovers_ += connection->failovers;
    failbacks_ += connection->failbacks;
    peer.sends.erase(connection->id);
    connections_.erase(connection.get());
  }
}

/// What was sent and not acknowledged when the last communicator ends: milliseconds, unless a fault is being dealt
/// with.
void Engine::awaitLingering() {
  const auto lingers = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) {
      const auto& sends = peer.second->sends;
      return std::any_of(sends.begin(), sends.end(), [](const auto& c) { return c.second->lingers(); });
    });
  };
  const int64_t end = nowNs() + kLingerAtEndNs;
  while (lingers() && nowNs() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Engine::closeRecv(void* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  forget(*static_cast<RecvConnection*>(static_cast<Connection*>(comm)));
}

/// Nobody will ask for it any more; its sender is told how much there was.
void Engine::forget(RecvConnection& connection) {
  Peer& peer = connection.peer;
  const uint64_t id = connection.id;
  const uint64_t delivered = connection.delivered();
  peer.tell(connection.bye());
  peer.flushOutbox();
  connection.shutdown();
  {
    const Owned owned(peer.ackOwner, Owned::Wait::Yes);
    peer.receives.erase(std::remove(peer.receives.begin(), peer.receives.end(), &connection.forAcks()),
                        peer.receives.end());
  }
  peer.closedAt[id] = delivered;
  if (peer.closedAt.size() > kClosedRemembered) peer.closedAt.erase(peer.closedAt.begin());
  connections_.erase(&connection);
  peer.receivesById.erase(id);  // the last of it, but for the caller's
}

void Engine::closeListen(void* listenComm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = listens_.find(static_cast<Listen*>(listenComm)->id);
  const std::deque<std::shared_ptr<RecvConnection>> never = std::move(entry->second->arrived);  // accepted
  listens_.erase(entry);
  for (const auto& connection : never) forget(*connection);
}

/// Connects that NCCL no longer asks for, and processes that nothing connects us with any more.
void Engine::forgetAbandoned(int64_t now) {
  if (now < nextForget_) return;
  nextForget_ = now + kForgetEveryNs;
  for (auto at = peers_.begin(); at != peers_.end();) {
    Peer& peer = *at->second;
    forgetConnects(peer, now);
    if (!peer.sends.empty() || !peer.receivesById.empty()) peer.emptySince = now;
    if (peer.emptySince == 0) peer.emptySince = now;
    if (now - peer.emptySince < kLeftNs) {
      ++at;
      continue;
    }
    std::vector<SideStreamPtr> its;
    for (const auto& [fd, stream] : streams_) {
      if (stream->peer == &peer) its.push_back(stream);
    }
    for (const SideStreamPtr& stream : its) closeStream(stream);
    acks_ += peer.acksSent;
    at = peers_.erase(at);
  }
}

void Engine::forgetConnects(Peer& peer, int64_t now) {
  for (auto it = peer.sends.begin(); it != peer.sends.end();) {
    const std::shared_ptr<SendConnection> connection = (it++)->second;
    if (connection->handedOver || now - connection->calledNs < kAbandonedNs) continue;
    peer.tell(connection->bye());
    connection->shutdown();
    peer.sends.erase(connection->id);
    connections_.erase(connection.get());
  }
}

}  // namespace r2cc
