#include "engine/connections.h"

#include <algorithm>

namespace r2cc {
namespace {

constexpr size_t kClosedRemembered = 4096;
constexpr int64_t kSweepEveryNs = msToNs(1000);
constexpr int64_t kAbandonedNs = msToNs(30000);  // NCCL asks for a connection again and again until it is there
constexpr int64_t kLeftNs = msToNs(60000);       // long enough for every question that may still be on its way

}  // namespace

void Connections::add(const std::shared_ptr<SendConnection>& made) {
  made->peer.sends[made->id] = made;
  all_.emplace(made.get(), made);
}

void Connections::add(const std::shared_ptr<RecvConnection>& made) {
  Peer& peer = made->peer;
  peer.receivesById[made->id] = made;
  {
    const Owned owned(peer.ackOwner, Owned::Wait::Yes);
    peer.receives.push_back(&made->forAcks());
  }
  all_.emplace(made.get(), made);
}

void Connections::onAnchor(const LanePtr& lane) const {
  for (const auto& [raw, connection] : all_) connection->onAnchor(lane);
}

void Connections::leave(const LanePtr& anchor) const {
  for (const auto& [raw, connection] : all_) connection->leave(anchor);
}

void Connections::close(SendConnection& connection) {
  Peer& peer = connection.peer;
  if (connection.breaksOff()) brokenOffNs_ = runNs();
  connection.linger();
  endLingering(peer);  // the connection may not be there any more
  peer.flushOutbox();
}

void Connections::end(SendConnection& connection) {
  Peer& peer = connection.peer;
  peer.tell(connection.bye());
  connection.shutdown();
  ended_.failovers += connection.failovers;
  ended_.failbacks += connection.failbacks;
  all_.erase(&connection);
  peer.sends.erase(connection.id);  // the last of it, but for the caller's
}

void Connections::endLingering(Peer& peer) {
  for (auto it = peer.sends.begin(); it != peer.sends.end();) {
    const auto& next = *it++;
    if (!next.second->lingers() || !next.second->lingered()) continue;
    const std::shared_ptr<SendConnection> connection = next.second;
    end(*connection);
  }
}

bool Connections::anyLingers() const {
  return std::any_of(shared_.peers.begin(), shared_.peers.end(), [](const auto& peer) {
    const auto& sends = peer.second->sends;
    return std::any_of(sends.begin(), sends.end(), [](const auto& c) { return c.second->lingers(); });
  });
}

bool Connections::anyOwesLent() const {
  return std::any_of(shared_.peers.begin(), shared_.peers.end(), [](const auto& peer) {
    const auto& sends = peer.second->sends;
    return std::any_of(sends.begin(), sends.end(),
                       [](const auto& c) { return c.second->lingers() && c.second->owesLent(); });
  });
}

void Connections::close(RecvConnection& connection) {
  Peer& peer = connection.peer;
  const uint64_t id = connection.id;
  const uint64_t delivered = connection.delivered();
  if (connection.breaksOff()) brokenOffNs_ = runNs();
  peer.tell(connection.bye());
  peer.flushOutbox();
  connection.shutdown();
  {
    const Owned owned(peer.ackOwner, Owned::Wait::Yes);
    auto& all = peer.receives;
    all.erase(std::remove(all.begin(), all.end(), &connection.forAcks()), all.end());
  }
  peer.closedAt[id] = delivered;
  if (peer.closedAt.size() > kClosedRemembered) peer.closedAt.erase(peer.closedAt.begin());
  all_.erase(&connection);
  peer.receivesById.erase(id);  // the last of it, but for the caller's
}

void Connections::tick(int64_t now) {
  if (now < nextLook_) return;
  nextLook_ = now + kSweepEveryNs;
  endAbandoned(now);
}

void Connections::endAbandoned(int64_t now) {
  for (auto at = shared_.peers.begin(); at != shared_.peers.end();) {
    Peer& peer = *at->second;
    endUnasked(peer, now);
    if (!peer.sends.empty() || !peer.receivesById.empty()) peer.emptySince = now;
    if (peer.emptySince == 0) peer.emptySince = now;
    if (now - peer.emptySince < kLeftNs) {
      ++at;
      continue;
    }
    streams_.closeOf(peer);
    ended_.acks += peer.acksSent;
    at = shared_.peers.erase(at);
  }
}

void Connections::endUnasked(Peer& peer, int64_t now) {
  for (auto it = peer.sends.begin(); it != peer.sends.end();) {
    const std::shared_ptr<SendConnection> connection = (it++)->second;
    if (!connection->handedOver && now - connection->calledNs >= kAbandonedNs) end(*connection);
  }
}

void Connections::shutdown() const {
  for (const auto& [key, peer] : shared_.peers) {
    for (const auto& [id, connection] : peer->sends) connection->leaveToKernel();
  }
  for (const auto& [raw, connection] : all_) connection->shutdown();
}

Connections::Totals Connections::totals() const {
  Totals out = ended_;
  for (const auto& [key, peer] : shared_.peers) out.acks += peer->acksSent;
  return out;
}

}  // namespace r2cc
