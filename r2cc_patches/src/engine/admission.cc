#include "engine/admission.h"

#include "wire/side_filter.h"

namespace r2cc {
namespace {

constexpr size_t kMaxPeers = 16384;  // processes that connect to us

bool asksToConnect(const Parsed& parsed) {
  bool hello = false;
  parsed.forEach([&](Type type, Reader&) { hello |= type == Type::Hello; });
  return hello;
}

}  // namespace

Peer* Admission::genuine(Parsed& parsed) {
  const Header& header = parsed.header();
  const Self& self = shared_.self;
  if (header.to != self.id) return dropped_.stranger++, nullptr;
  const bool weConnect = header.keyOfSender != 0;
  Peer* peer = shared_.peers.find(header.from, weConnect);
  if (peer == nullptr && weConnect) return dropped_.stranger++, nullptr;  // we never connected to it
  const PairKey key = peer != nullptr ? peer->key : PairKey::of(self.key, header.from, self.id, self.encryption.get());
  if (!parsed.admit(key)) return dropped_.forged++, nullptr;
  if (peer == nullptr && (!asksToConnect(parsed) || shared_.peers.size() >= kMaxPeers)) {
    return dropped_.stranger++, nullptr;
  }
  return peer != nullptr ? peer : &shared_.peers.add(header.from, false, key);
}

bool Admission::fresh(Peer& peer, const Parsed& parsed) {
  if (!peer.replays.accept(parsed.header().seq)) {
    dropped_.replayed += peer.hearsTwice(runNs()) ? 0 : 1;
    return false;
  }
  if (peer.replays.isNewest(parsed.header().seq)) peer.heardAtSeq = peer.sentSeq();
  return true;
}

Peer* Admission::admit(Parsed& parsed) {
  Peer* peer = genuine(parsed);
  return peer != nullptr && fresh(*peer, parsed) ? peer : nullptr;
}

Path* Admission::refused(size_t nic, const NicAddress& to, const uint8_t* quote, size_t size) {
  auto parsed = Parsed::open(quote, size);
  Peer* peer = nullptr;
  if (parsed && parsed->header().from == shared_.self.id) {
    peer = shared_.peers.find(parsed->header().to, /*weConnect=*/parsed->header().keyOfSender == 0);
  }
  if (peer == nullptr || !parsed->admit(peer->key)) return dropped_.refusals++, nullptr;
  return parsed->header().seq > peer->heardAtSeq ? peer->find(nic, to) : nullptr;
}

uint64_t Admission::unread() const {
  return droppedByKernel(shared_.side.fds()) + droppedByKernel(shared_.side.ackFds());
}

}  // namespace r2cc
