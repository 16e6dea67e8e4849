#include "engine/messages.h"

#include <algorithm>
#include <utility>

#include "wire/refusal.h"

namespace r2cc {
namespace {

constexpr int64_t kSteadyNs = msToNs(100);  // answers that are farther apart are none of a steady peer
constexpr int64_t kBackNs = msToNs(300);    // nothing by UDP for so long: the path may have been away
constexpr uint32_t kProofLoss = 1;          // packets sent again in the proof that data passes: one may only be late

/// Reads a message; false when it is malformed.
template <class M>
bool read(Reader& reader, M& message) {
  reader(message);
  return reader.ok();
}

/// A lane or a stream that would end with the process. Where none is left, as in a failover, the first refusal says as
/// much as such an end.
bool holdsAnything(const Peer& peer) {
  const auto up = [](const auto& c) { return !c.second->over() && c.second->hasLaneUp(); };
  const auto hears = [](const auto& path) {
    const SideStreamPtr stream = path->control.get();
    return (stream != nullptr && stream->up()) || (path->spare != nullptr && path->spare->up());
  };
  return std::any_of(peer.sends.begin(), peer.sends.end(), up) ||
         std::any_of(peer.receivesById.begin(), peer.receivesById.end(), up) ||
         std::any_of(peer.paths().begin(), peer.paths().end(), hears);
}

/// A path that lost some of so little is as lossy as when its data stood still: it is asked again.
void onDataProof(Path& path) {
  const SideStreamPtr stream = path.control.get();
  if (stream != nullptr && stream->ours) path.dataThrough(runNs(), stream->resent() <= kProofLoss);
}

}  // namespace

// ---- by UDP -----------------------------------------------------------------------------------------------------

void Messages::onDatagram(size_t nic, const NicAddress& from, const uint8_t* data, size_t size) {
  auto parsed = Parsed::open(data, size);
  if (!parsed) return onRefusal(data, size);
  Peer* peer = parts_.admission.genuine(*parsed);
  if (peer == nullptr) return;
  if (!parts_.admission.fresh(*peer, *parsed)) return hearTwin(*peer, nic, from, parsed->header());
  Path* path = hear(*peer, nic, from, parsed->header());
  parts_.judge.onRemoteLinks(*peer, parsed->header());
  dispatchAll({*peer, path, /*byUdp=*/true, parsed->header().nicsVersion}, *parsed);
}

/// What else the header tells, links above all, the engine hears of by itself: here it might have to fence a connection
/// that this thread holds.
void Messages::onAcks(size_t nic, const NicAddress& from, const uint8_t* data, size_t size) {
  auto parsed = Parsed::open(data, size);
  if (!parsed) return void(dropped_.malformed++);
  if (parsed->header().keyOfSender == 0) return void(dropped_.stranger++);  // it does not receive from us
  Peer* peer = parts_.admission.genuine(*parsed);
  if (peer == nullptr) return;
  if (!parts_.admission.fresh(*peer, *parsed)) return hearTwin(*peer, nic, from, parsed->header());
  hear(*peer, nic, from, parsed->header());
  takeAcks(*peer, *parsed);
}

/// After its twin that came by TCP, or far behind it: UDP passes. It says nothing else, as anybody may repeat it.
void Messages::hearTwin(const Peer& peer, size_t nic, const NicAddress& from, const Header& header) {
  Path* path = peer.streams ? peer.find(nic, from) : nullptr;
  if (path == nullptr) return;
  path->tcpProofs = 0;
  if (peer.replays.knows(header.seq)) path->askedNs = 0;
}

/// The path it came over by UDP, null if that is none of ours.
Path* Messages::hear(Peer& peer, size_t nic, const NicAddress& from, const Header& header) {
  Path* path = peer.find(nic, from);
  if (path == nullptr && !peer.weConnect) path = peer.meet(nic, from);  // it is the sender who chooses
  hearOver(peer, nic, path, header);
  if (path == nullptr) return path;
  const int64_t now = path->lastHeard;
  // After a silence, whatever was tried by TCP meanwhile says nothing.
  if (now - path->udpHeard > kBackNs) path->nextStream = path->streamTries = 0;
  path->udpHeard = now;
  path->askedNs = path->tcpProofs = path->refusedAlive = 0;
  return path;
}

/// Where a path lost much, its kernel sends again what a stream was given long ago, also after the process's end. That
/// tells of the path, and nothing of the process.
void Messages::hearOver(Peer& peer, size_t nic, Path* path, const Header& header) {
  const int64_t now = runNs();
  const bool news = peer.replays.isNewest(header.seq);
  if (news) peer.lastHeard = now;
  if (!std::exchange(peer.known, true)) {
    for (const auto& other : peer.paths()) other->askedNs = 0;  // it did not know us: that was no silence
  }
  parts_.locator.heard(nic, now);
  if (news) peer.remoteHeard = header.nicsHeard;
  if (path == nullptr) return;
  path->lastHeard = now;
  if (news && std::exchange(path->refused, false)) path->refusedAlive++;
}

void Messages::onRefused(size_t nic, const NicAddress& to, const uint8_t* quote, size_t size) {
  Path* path = parts_.admission.refused(nic, to, quote, size);
  if (path == nullptr) return;
  path->refused = true;
  SecondWay::hurry(*path);
}

void Messages::takeAcks(Peer& peer, const Parsed& parsed) {
  const bool whole = parsed.forEach([&](Type type, Reader& reader) {
    Ack ack;
    if (type == Type::Ack) reader(ack);
    if (type != Type::Ack || !reader.ok()) return void(dropped_.malformed++);
    const auto connection = peer.sends.find(ack.connection);
    if (connection != peer.sends.end()) connection->second->onAck(ack.delivered);
  });
  if (!whole) dropped_.malformed++;
}

// ---- by TCP -----------------------------------------------------------------------------------------------------

void Messages::readStream(int fd) {
  const SideStreamPtr stream = parts_.streams.find(fd);
  if (stream == nullptr) return;
  if (stream->ours && !stream->up()) {
    if (stream->refused()) onStreamRefused(stream);
    return;
  }
  const bool goesOn = stream->read([&](const uint8_t* data, size_t size) { onStreamDatagram(stream, data, size); });
  if (goesOn) return;
  if (stream->peer != nullptr) stream->peer->brokeNs = runNs();
  // One that rests for hours may be ended by whatever lies between.
  if (stream->refused() && stream->path != nullptr && !stream->rests) stream->path->refused = true;
  parts_.streams.close(stream);
}

/// Closed at once: a descriptor in error wakes the engine again and again.
void Messages::onStreamRefused(const SideStreamPtr& stream) {
  if (stream->path != nullptr) {
    const int64_t now = runNs();
    if (stream->peer->streamed && !holdsAnything(*stream->peer)) stream->peer->brokeNs = now;
    stream->path->refused = true;
    stream->path->tcpRefusedNs = now;
  }
  parts_.streams.close(stream);
}

void Messages::onStreamDatagram(const SideStreamPtr& stream, const uint8_t* data, size_t size) {
  auto parsed = Parsed::open(data, size);
  if (!parsed) return void(dropped_.malformed++);
  if (stream->acks && stream->peer != nullptr && parsed->header().keyOfSender == 0) return;
  Peer* peer = parts_.admission.admit(*parsed);
  if (peer == nullptr || (stream->peer != nullptr && stream->peer != peer)) return;
  bool rests = true;  // nothing is said
  (void)parsed->forEach([&](Type type, Reader&) { rests &= type == Type::Filler; });
  const bool known = parts_.streams.claim(stream, *peer, rests);
  if (stream->rests) return;
  hearStream(*stream, *peer, *parsed);
  // A Hello tells which NICs it has, and only then whose path the stream is on: the answer goes back by it.
  if (!known) (void)parts_.streams.claim(stream, *peer, rests);
}

void Messages::hearStream(SideStream& stream, Peer& peer, const Parsed& parsed) {
  Path* path = stream.path;
  stream.heardNs = runNs();
  hearOver(peer, stream.nic, path, parsed.header());
  if (stream.acks) return takeAcks(peer, parsed);
  parts_.judge.onRemoteLinks(peer, parsed.header());
  dispatchAll({peer, path, /*byUdp=*/false, parsed.header().nicsVersion}, parsed);
}

// ---- whom it concerns -------------------------------------------------------------------------------------------

void Messages::dispatchAll(Arrival arrival, const Parsed& parsed) {
  if (!parsed.forEach([&](Type type, Reader& reader) { dispatch(arrival, type, reader); })) dropped_.malformed++;
}

void Messages::dispatch(Arrival& arrival, Type type, Reader& reader) {
  Peer& peer = arrival.peer;
  const auto give = [&](auto message, auto handler) {
    if (read(reader, message)) handler(message);
  };
  if (type == Type::Pong) arrival.answers = true;
  if (type == Type::Ping || type == Type::Pong) {
    if (type == Type::Ping) return give(Ping{}, [&](const Ping& m) { onPing(arrival, m); });
    return give(Pong{}, [&](const Pong& m) { onPong(arrival, m); });
  }
  if (type == Type::Filler) return;
  if (type != Type::Ack) shared_.agenda.lookSoon();
  if (type == Type::Addresses) {
    return give(Addresses{}, [&](const Addresses& m) { onAddresses(arrival, m.nics); });
  }
  if (type == Type::PathDead) return give(PathDead{}, [&](const PathDead& m) { parts_.locator.onPathDead(peer, m); });
  if (type == Type::Slow) return give(Slow{}, [&](const Slow& m) { parts_.rates.onSlow(peer, m); });
  if (type == Type::PathHealth && !peer.weConnect) {
    return give(PathHealth{}, [&](const PathHealth& m) { parts_.report.onPathHealth(peer, m); });
  }
  if (type == Type::Leaving && peer.weConnect) {
    return give(Leaving{}, [&](const Leaving& m) { parts_.drains.onLeaving(peer, m); });
  }
  if (type == Type::LookAt && peer.weConnect) {
    return give(LookAt{}, [&](const LookAt& m) { Locator::onLookAt(peer, m); });
  }
  if (!(peer.weConnect ? dispatchToSender(arrival, type, reader) : dispatchToReceiver(arrival, type, reader))) {
    dropped_.malformed++;
  }
}

/// Messages that a receiver sends.
bool Messages::dispatchToSender(const Arrival& arrival, Type type, Reader& reader) {
  Peer& peer = arrival.peer;
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
        onAddresses(arrival, m.nics);
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
      return give(Ack{}, [&](SendConnection& c, const Ack& m) { c.onAck(m.delivered, arrival.answers); });
    case Type::Bye:
      return give(Bye{}, [](SendConnection& c, const Bye& m) { c.onBye(m); });
    default:
      return false;
  }
}

/// Messages that a sender sends. One for a connection that was closed here is told how much it had.
bool Messages::dispatchToReceiver(const Arrival& arrival, Type type, Reader& reader) {
  Peer& peer = arrival.peer;
  if (type == Type::Hello) {
    Hello hello;
    if (!read(reader, hello)) return false;
    onHello(arrival, hello);
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
    case Type::NoLeave:
      return give(NoLeave{}, [](RecvConnection& c, const NoLeave& m) { c.onNoLeave(m); });
    case Type::Bye:
      return give(Bye{}, [](RecvConnection& c, const Bye& m) { c.onBye(m); });
    default:
      return false;
  }
}

/// A NIC whose address is another has no lanes left; what is said to it goes to the new one.
void Messages::onAddresses(const Arrival& arrival, const std::vector<NicAddress>& nics) {
  for (Path* path : arrival.peer.setRemote(nics, arrival.version)) parts_.judge.onMoved(arrival.peer, *path);
}

void Messages::onHello(const Arrival& arrival, const Hello& hello) {
  Peer& peer = arrival.peer;
  onAddresses(arrival, hello.nics);
  Welcome answer;
  answer.connection = hello.connection;
  answer.nics = shared_.addresses();
  // A Hello that was delayed until after the close must not bring the connection back.
  const bool exists = peer.receivesById.count(hello.connection) != 0 || peer.closedAt.count(hello.connection) != 0;
  Listen* listen = parts_.listeners.find(hello.listen);
  if (!exists && listen != nullptr) {
    if (listen->full()) return;  // it asks again
    const auto made = std::make_shared<RecvConnection>(services_, peer, hello.connection, listen->ctx,
                                                       peer.route(listen->dev, hello.homeDev));
    parts_.connections.add(made);
    listen->arrived.push_back(made);
  }
  answer.known = exists || listen != nullptr ? 1 : 0;
  peer.tell(answer);
}

/// Repeated, it changes nothing: the listen stays refused until NCCL closes it.
void Messages::onRefusal(const uint8_t* data, size_t size) {
  const auto refusal = Refusal::open(data, size);
  if (!refusal) return void(dropped_.malformed++);
  if (refusal->to != shared_.self.id) return void(dropped_.stranger++);
  if (!Refusal::genuine(data, size, *refusal, shared_.self.key)) return void(dropped_.forged++);
  Listen* listen = parts_.listeners.find(refusal->listen);
  if (listen == nullptr) return;
  listen->refused = true;
  parts_.refusals.heard(refusal->readable());
}

/// The answer goes back over the same path and brings acknowledgements along: a lost one costs a probe. Where there are
/// more connections than fit, the next answer goes on with those that this one left out.
void Messages::onPing(const Arrival& arrival, const Ping& ping) {
  if (arrival.path == nullptr) return;
  Peer& peer = arrival.peer;
  if (ping.round == kOneWayRound) arrival.path->heardProof(arrival.byUdp, runNs());
  Datagram d = peer.datagram();
  d.add(Pong{ping.round});
  auto next = peer.receivesById.lower_bound(peer.nextRepaired);
  for (size_t i = 0; i < peer.receivesById.size(); i++, ++next) {
    if (next == peer.receivesById.end()) next = peer.receivesById.begin();
    peer.nextRepaired = next->first;
    if (!d.add(Ack{next->first, next->second->delivered()})) break;
  }
  if (ping.round != kOneWayRound) {
    peer.send(*arrival.path, d);
  } else if (arrival.byUdp) {
    peer.sendByUdp(*arrival.path, d);
  } else {
    peer.sendByTcp(*arrival.path, d);
  }
}

void Messages::onPong(const Arrival& arrival, const Pong& pong) {
  if (arrival.path == nullptr) return;
  Peer& peer = arrival.peer;
  Path& path = *arrival.path;
  const int64_t now = runNs();
  if (now - peer.lastPong > kSteadyNs) peer.answersSince = now;
  peer.lastPong = now;
  if (pong.round == kOneWayRound) {
    if (arrival.byUdp) path.proofHeard = now;
    return path.heardProof(arrival.byUdp, now);
  }
  if (pong.round == kDataRound && !arrival.byUdp) onDataProof(path);
  peer.answered(path, pong.round, now);
  if (path.pong(now)) parts_.report.path(peer, path, "probation", "probe");
}

}  // namespace r2cc
