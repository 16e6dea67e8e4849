// Datagrams in: who sent it, is it genuine and new, and whom it concerns.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace r2cc {
namespace {

constexpr int64_t kSteadyNs = msToNs(100);  // answers that are farther apart are none of a steady peer
constexpr uint32_t kProofLoss = 1;          // packets sent again in the proof that data passes: one may only be late
constexpr size_t kMostArrived = 64;         // connections of one listen that NCCL has not accepted yet

/// Reads a message; false when it is malformed.
template <class M>
bool read(Reader& reader, M& message) {
  reader(message);
  return reader.ok();
}

}  // namespace

void Engine::onDatagram(size_t nic, const NicAddress& from, const uint8_t* data, size_t size) {
  const auto parsed = Parsed::open(data, size);
  if (!parsed) return void(dropped_.malformed++);
  Peer* peer = genuine(*parsed);
  if (peer == nullptr) return;
  if (!fresh(*peer, *parsed)) return heardTwin(*peer, nic, from, parsed->header());
  byUdp_ = true;
  Path* path = heard(*peer, nic, from, parsed->header());
  seeRemoteLinks(*peer, parsed->header());
  answers_ = false;
  if (!parsed->forEach([&](Type type, Reader& reader) { dispatch(*peer, path, type, reader); })) dropped_.malformed++;
}

/// The path it came over by UDP, null if that is none of ours.
Path* Engine::heard(Peer& peer, size_t nic, const NicAddress& from, const Header& header) {
  Path* path = peer.find(nic, from);
  heardOver(peer, nic, path, header);
  if (path == nullptr) return path;
  path->udpHeard = peer.lastHeard;
  path->askedNs = path->tcpAlone = 0;
  return path;
}

void Engine::heardOver(Peer& peer, size_t nic, Path* path, const Header& header) {
  peer.lastHeard = runNs();
  if (!std::exchange(peer.known, true)) {
    for (const auto& other : peer.paths()) other->askedNs = 0;  // it did not know us: that was no silence
  }
  heardNs_[nic] = peer.lastHeard;
  peer.remoteHeard = header.nicsHeard;
  if (path == nullptr) return;
  path->lastHeard = peer.lastHeard;
  path->refused = false;
}

void Engine::dispatch(Peer& peer, Path* path, Type type, Reader& reader) {
  if (type == Type::Ping) {
    Ping ping;
    if (read(reader, ping) && path != nullptr) onPing(peer, *path, ping);
    return;
  }
  if (type == Type::Pong) {
    Pong pong;
    answers_ = true;
    if (read(reader, pong) && path != nullptr) onPong(peer, *path, pong);
    return;
  }
  if (type == Type::Filler) return;
  if (type != Type::Ack) lookSoon();
  if (type == Type::PathDead) {
    PathDead message;
    if (read(reader, message)) onPathDead(peer, message);
    return;
  }
  if (type == Type::Slow) {
    Slow message;
    if (read(reader, message)) onSlow(peer, message);
    return;
  }
  if (type == Type::PathHealth && !peer.weConnect) {
    PathHealth message;
    if (read(reader, message)) onPathHealth(peer, message);
    return;
  }
  if (type == Type::LookAt && peer.weConnect) {
    LookAt message;
    if (read(reader, message)) onLookAt(peer, message);
    return;
  }
  if (!(peer.weConnect ? dispatchToSender(peer, type, reader) : dispatchToReceiver(peer, type, reader))) {
    dropped_.malformed++;
  }
}

/// Messages that a receiver sends.
bool Engine::dispatchToSender(Peer& peer, Type type, Reader& reader) {
  const auto find = [&](uint64_t id) {
    const auto it = peer.sends.find(id);
    return it == peer.sends.end() ? nullptr : it->second;  // a copy: the handler may close it
  };
  const auto give = [&](auto message, auto handler) {
    if (!read(reader, message)) return false;
    const auto connection = find(message.connection);
    const bool question = type != Type::Bye && type != Type::Ack;
    if (question && (connection == nullptr || connection->over())) {
      peer.tell(connection != nullptr ? connection->bye() : Bye{message.connection, 1, 0});
    } else if (connection != nullptr) {
      handler(*connection, message);
    }
    return true;
  };
  switch (type) {
    case Type::Welcome:
      return give(Welcome{}, [&](SendConnection& c, const Welcome& m) {
        peer.setRemote(m.nics);
        c.onWelcome(m);
      });
    case Type::LaneHandle:
      return give(LaneHandle{}, [](SendConnection& c, const LaneHandle& m) { c.onLaneHandle(m); });
    case Type::LaneUp:
      return give(LaneUp{}, [](SendConnection& c, const LaneUp& m) { c.onLaneUp(m); });
    case Type::Suspect:
      return give(Suspect{}, [](SendConnection& c, const Suspect& m) { c.onSuspect(m); });
    case Type::Fenced:
      return give(Fenced{}, [](SendConnection& c, const Fenced& m) { c.onFenced(m); });
    case Type::Switched:
      return give(Switched{}, [](SendConnection& c, const Switched& m) { c.onSwitched(m); });
    case Type::Ack:
      return give(Ack{}, [&](SendConnection& c, const Ack& m) { c.onAck(m.delivered, answers_); });
    case Type::Bye:
      return give(Bye{}, [](SendConnection& c, const Bye& m) { c.onBye(m); });
    default:
      return false;
  }
}

/// Messages that a sender sends. One for a connection that was closed here is told how much it had.
bool Engine::dispatchToReceiver(Peer& peer, Type type, Reader& reader) {
  if (type == Type::Hello) {
    Hello hello;
    if (!read(reader, hello)) return false;
    onHello(peer, hello);
    return true;
  }
  const auto give = [&](auto message, auto handler) {
    if (!read(reader, message)) return false;
    const auto it = peer.receivesById.find(message.connection);
    if (it != peer.receivesById.end()) {
      const std::shared_ptr<RecvConnection> connection = it->second;
      if (connection->over() && type != Type::Bye) {
        peer.tell(connection->bye());
      } else {
        handler(*connection, message);
      }
    } else if (peer.closedAt.count(message.connection) != 0 && type != Type::Bye) {
      peer.tell(Bye{message.connection, 0, peer.closedAt[message.connection]});
    }
    return true;
  };
  switch (type) {
    case Type::OpenLane:
      return give(OpenLane{}, [](RecvConnection& c, const OpenLane& m) { c.onOpenLane(m); });
    case Type::CloseLane:
      return give(CloseLane{}, [](RecvConnection& c, const CloseLane& m) { c.onCloseLane(m); });
    case Type::Freeze:
      return give(Freeze{}, [](RecvConnection& c, const Freeze& m) { c.onFreeze(m); });
    case Type::Switch:
      return give(Switch{}, [](RecvConnection& c, const Switch& m) { c.onSwitch(m); });
    case Type::Bye:
      return give(Bye{}, [](RecvConnection& c, const Bye& m) { c.onBye(m); });
    default:
      return false;
  }
}

std::vector<NicAddress> Engine::addresses() const {
  std::vector<NicAddress> out;
  for (const LocalNic& nic : nics_) {
    if (nic.address.family != 0 && nic.address.port != 0) out.push_back(nic.address);
  }
  return out;
}

void Engine::onHello(Peer& peer, const Hello& hello) {
  peer.setRemote(hello.nics);
  Welcome answer;
  answer.connection = hello.connection;
  answer.nics = addresses();
  // A Hello that was delayed until after the close must not bring the connection back.
  const bool exists = peer.receivesById.count(hello.connection) != 0 || peer.closedAt.count(hello.connection) != 0;
  const auto entry = listens_.find(hello.listen);
  if (!exists && entry != listens_.end() && entry->second->arrived.size() >= kMostArrived) return;  // it asks again
  if (!exists && entry != listens_.end()) {
    Listen& listen = *entry->second;
    const auto made = std::make_shared<RecvConnection>(services_, peer, hello.connection, listen.ctx,
                                                       peer.route(listen.dev, hello.homeDev));
    peer.receivesById[made->id] = made;
    {
      const Owned owned(peer.ackOwner, Owned::Wait::Yes);
      peer.receives.push_back(&made->forAcks());
    }
    remember(made);
    listen.arrived.push_back(made);
  }
  answer.known = exists || entry != listens_.end() ? 1 : 0;
  peer.tell(answer);
}

/// The answer goes back over the same path and brings acknowledgements along: a lost one costs a probe. Where there are
/// more connections than fit, the next answer goes on with those that this one left out.
void Engine::onPing(Peer& peer, const Path& path, const Ping& ping) {
  Datagram d = peer.datagram();
  d.add(Pong{ping.round});
  auto next = peer.receivesById.lower_bound(peer.nextRepaired);
  for (size_t i = 0; i < peer.receivesById.size(); i++, ++next) {
    if (next == peer.receivesById.end()) next = peer.receivesById.begin();
    peer.nextRepaired = next->first;
    if (!d.add(Ack{next->first, next->second->delivered()})) break;
  }
  if (ping.round == kUdpRound) {
    if (byUdp_) peer.sendByUdp(path, d);
    return;
  }
  peer.send(path, d);
}

void Engine::onPong(Peer& peer, Path& path, const Pong& pong) {
  const int64_t now = runNs();
  if (now - peer.lastPong > kSteadyNs) peer.answersSince = now;
  peer.lastPong = now;
  if (pong.round == kUdpRound) {
    if (byUdp_) path.udpProofs++, path.udpMisses = 0, path.proofHeard = now;
    return;
  }
  if (pong.round == kDataRound && !byUdp_) onDataProof(path);
  peer.answered(path, pong.round, now);
  if (path.pong(now)) pathEvent(peer, path, "probation", "probe");
}

/// A path that lost some of so little is as lossy as when its data stood still: it is asked again.
void Engine::onDataProof(Path& path) {
  const SideStreamPtr stream = path.control.get();
  if (stream != nullptr && stream->ours) path.dataThrough(runNs(), stream->resent() <= kProofLoss);
}

/// After a failover: what connections said was done and is not, before the next tick.
void Engine::driveReplays() {
  for (const auto& [key, peer] : peers_) {
    if (!std::exchange(peer->resends, false)) continue;
    for (const auto& [id, connection] : peer->sends) connection->driveReplays();
  }
}

}  // namespace r2cc
