// The door: what may touch a connection at all, and how much of the engine's time a flood may take.
#include <algorithm>

#include "engine/engine.h"
#include "engine/engine_tags.h"
#include "wire/keys.h"
#include "wire/side_filter.h"

namespace r2cc {
namespace {

constexpr int64_t kTurnNs = msToNs(1);  // reading sockets, before the clock is looked at again
constexpr size_t kMaxPeers = 16384;     // processes that connect to us

bool asksToConnect(const Parsed& parsed) {
  bool hello = false;
  parsed.forEach([&](Type type, Reader&) { hello |= type == Type::Hello; });
  return hello;
}

}  // namespace

/// The sender of a genuine datagram; null, and counted, for everything else. Nothing is allocated for a stranger: a
/// process is remembered from its first Hello on.
Peer* Engine::genuine(const Parsed& parsed) {
  const Header& header = parsed.header();
  if (header.to != self_.id) return dropped_.stranger++, nullptr;
  const bool weConnect = header.keyOfSender != 0;
  Peer* peer = findPeer(header.from, weConnect);
  if (peer == nullptr && weConnect) return dropped_.stranger++, nullptr;  // we never connected to it
  const Key key = peer != nullptr ? peer->key : pairKey(self_.key, header.from, self_.id);
  if (!parsed.verify(key)) return dropped_.forged++, nullptr;
  if (peer == nullptr && (!asksToConnect(parsed) || peers_.size() >= kMaxPeers)) {
    return dropped_.stranger++, nullptr;
  }
  return peer != nullptr ? peer : &peerFor(header.from, false, key);
}

/// False, and counted, for what was taken before. With two ways most comes twice.
bool Engine::fresh(Peer& peer, const Parsed& parsed) {
  if (!peer.replays.accept(parsed.header().seq)) {
    dropped_.replayed += peer.streams ? 0 : 1;
    return false;
  }
  peer.heardAtSeq = peer.sentSeq();
  return true;
}

Peer* Engine::admit(const Parsed& parsed) {
  Peer* peer = genuine(parsed);
  return peer != nullptr && fresh(*peer, parsed) ? peer : nullptr;
}

/// By UDP, after its twin that came by TCP: UDP passes. It says nothing else, as anybody may repeat it.
void Engine::heardTwin(Peer& peer, size_t nic, const NicAddress& from, const Header& header) const {
  if (!peer.streams || !peer.replays.knows(header.seq)) return;
  Path* path = peer.find(nic, from);
  if (path == nullptr) return;
  path->askedNs = path->tcpAlone = 0;
}

/// A "no such port" counts when it quotes, tag and all, a datagram of ours sent after the peer was last heard: anybody
/// can send ICMP.
void Engine::onRefused(size_t nic, const NicAddress& to, const uint8_t* quote, size_t size) {
  const auto parsed = Parsed::open(quote, size);
  Peer* peer = nullptr;
  if (parsed && parsed->header().from == self_.id) {
    peer = findPeer(parsed->header().to, /*weConnect=*/parsed->header().keyOfSender == 0);
  }
  if (peer == nullptr || !parsed->verify(peer->key)) return void(dropped_.refusals++);
  Path* path = peer->find(nic, to);
  if (path == nullptr || parsed->header().seq <= peer->heardAtSeq) return;
  path->refused = true;
  path->askedNs = std::min(path->askedNs == 0 ? INT64_MAX : path->askedNs, runNs() - kUdpPatienceNs);
}

/// A little from each socket in turn until all are empty or the turn's time is spent; what is left wakes the engine at
/// once. A flood on one NIC keeps neither the others waiting nor the clock, without which there are no verdicts.
/// True when time ran out.
bool Engine::receiveAll(std::vector<size_t> ready) {
  if (ready.empty()) return false;
  const int64_t until = nowNs() + kTurnNs;
  std::rotate(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(turn_++ % ready.size()), ready.end());
  while (!ready.empty()) {
    for (auto nic = ready.begin(); nic != ready.end();) {
      const auto take = [&](const NicAddress& from, const uint8_t* data, size_t size) {
        onDatagram(*nic, from, data, size);
      };
      nic = SideChannel::receive(side_.fds()[*nic], take) ? nic + 1 : ready.erase(nic);
      if (nowNs() > until) return !ready.empty();
    }
  }
  return false;
}

void Engine::readRefusals(size_t nic) {
  side_.readErrors(nic,
                   [&](const NicAddress& to, const uint8_t* quote, size_t size) { onRefused(nic, to, quote, size); });
}

uint64_t Engine::unread() const { return droppedByKernel(side_.fds()) + droppedByKernel(side_.ackFds()); }

uint64_t Engine::dropped() const { return dropped_.sum() + unread(); }

}  // namespace r2cc
