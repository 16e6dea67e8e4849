// The side channel's second way, and who tells the subnet where our NICs are.
//
// A question that UDP leaves unanswered for 20 ms is asked over TCP as well, on the same path: from then on all that is
// said over that path goes both ways, until UDP was asked and answered alone for a while. So a firewall costs a healthy
// job nothing, and is told from a broken path, which answers on neither. A stream also proves that data passes again
// where a lane stood still.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "engine/engine.h"
#include "engine/engine_tags.h"
#include "nic/bind_nic.h"

namespace r2cc {
namespace {

constexpr int64_t kConnectNs = msToNs(300);    // a stream that is not up by then is begun anew
constexpr int64_t kTcpSilenceNs = msToNs(40);  // no answer over a stream either
constexpr int64_t kStillNs = msToNs(8);        // a lane whose kernel hears nothing, though something is on its way
constexpr int64_t kProofEveryNs = msToNs(200);
constexpr int kProofs = 10;  // then UDP passes again
constexpr int64_t kProofWaitNs = msToNs(250);
constexpr int64_t kFirstTryNs = msToNs(100), kMostTryNs = msToNs(8000), kMostTryIfNeededNs = msToNs(400);
constexpr int kMostTries = 7;
constexpr int kMissesToSay = 2, kMissesOneWay = 4;  // while TCP answers: then it is no late peer
constexpr int64_t kStrangerNs = msToNs(3000);
constexpr size_t kMostStrangers = 64;
constexpr int kMostAtOnce = 16;  // accepted
constexpr int64_t kAskAgainNs = msToNs(20);
constexpr size_t kFillers = 48, kFillerBytes = 1280;  // 60 KiB: what a kernel cuts into packets of full size
constexpr int64_t kAnnounceEveryNs = msToNs(1100);    // neighbours keep what they have learned for a second

bool linked(const Path& path) { return path.linked || path.within; }

}  // namespace

void Engine::watchListens() {
  for (size_t i = 0; i < nics_.size(); i++) {
    if (side_.listenFds()[i] >= 0) watch(side_.listenFds()[i], kTagListen + i);
    if (side_.ackListenFds()[i] >= 0) watch(side_.ackListenFds()[i], kTagAckListen + i);
  }
}

// ---- making and ending them -------------------------------------------------------------------------------------

void Engine::acceptStreams(size_t nic, bool acks) {
  const int door = acks ? side_.ackListenFds()[nic] : side_.listenFds()[nic];
  for (int i = 0; i < kMostAtOnce; i++) {
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    const int fd = accept4(door, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    (void)keepOnNic(fd, nics_[nic].name);
    adopt(std::make_shared<SideStream>(fd, nic, NicAddress::from(from), acks));
  }
}

/// Its descriptor is unique as long as it is in the map. Too many strangers: the oldest goes.
void Engine::adopt(const SideStreamPtr& stream) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kTagStream + static_cast<uint64_t>(stream->fd());
  if (epoll_ctl(stream->acks ? ackEpoll_ : epoll_, EPOLL_CTL_ADD, stream->fd(), &event) != 0) return;
  streams_[stream->fd()] = stream;
  SideStreamPtr oldest;
  size_t strangers = 0;
  for (const auto& [fd, s] : streams_) {
    if (s->peer != nullptr) continue;
    strangers++;
    if (oldest == nullptr || s->sinceNs < oldest->sinceNs) oldest = s;
  }
  if (strangers > kMostStrangers) closeStream(oldest);
}

void Engine::endStrangers(int64_t now) {
  if (now < nextSweep_) return;
  nextSweep_ = now + kStrangerNs / 4;
  std::vector<SideStreamPtr> over;
  for (const auto& [fd, s] : streams_) {
    if (s->peer == nullptr && now - s->sinceNs > kStrangerNs) over.push_back(s);
  }
  for (const SideStreamPtr& s : over) closeStream(s);
}

void Engine::closeStream(const SideStreamPtr& stream) {
  (void)epoll_ctl(stream->acks ? ackEpoll_ : epoll_, EPOLL_CTL_DEL, stream->fd(), nullptr);
  streams_.erase(stream->fd());
  if (stream->path == nullptr) return;
  if (stream->path->spare == stream) stream->path->spare = nullptr;
  StreamSlot& slot = stream->acks ? stream->path->acks : stream->path->control;
  if (slot.get() == stream) slot.set(nullptr);
}

void Engine::closeStreams(Path& path) {
  for (const SideStreamPtr& s : {path.control.get(), path.acks.get()}) {
    if (s != nullptr) closeStream(s);
  }
  path.askedNs = path.tcpAlone = 0;
  path.udpProofs = path.udpMisses = 0;
}

void Engine::openStreams(Peer& peer, Path& path, int64_t now) {
  closeStreams(path);
  path.askedNs = now - kUdpPatienceNs;
  const bool freely = path.streamTries % 2 == 1;  // where NICs share a subnet, answers may come in by another
  const int64_t most = peer.streams ? kMostTryIfNeededNs : kMostTryNs;
  path.nextStream = now + std::min(kFirstTryNs << std::min(path.streamTries++, kMostTries), most);
  const bool fresh = path.provesData(now);  // an old one proves less
  if (!fresh && wakeSpare(path, now)) return greet(peer, *path.control.get());
  for (const bool acks : {false, true}) {
    const SideStreamPtr stream = SideStream::connect(nics_[path.local], peer.remote()[path.remote], acks, freely);
    if (stream == nullptr) continue;
    stream->peer = &peer;
    stream->path = &path;
    adopt(stream);
    if (streams_.count(stream->fd()) == 0) continue;
    (acks ? path.acks : path.control).set(stream);
  }
}

// ---- what comes by them -----------------------------------------------------------------------------------------

/// The first genuine datagram says whose a stream is. Of a path the newest that was accepted is the one in use; one
/// that we made ourselves goes before it, so that two ends that call at once do not hang up on each other.
bool Engine::claim(const SideStreamPtr& stream, Peer& peer, bool rests) {
  if (stream->peer != nullptr && stream->peer != &peer) return false;
  const bool first = stream->peer == nullptr || stream->rests;
  if (first) stream->path = peer.findByAddress(stream->nic, stream->from);
  if (stream->path == nullptr) return false;
  stream->peer = &peer;
  stream->rests = first && rests;
  if (stream->rests) return true;
  peer.streams = true;
  StreamSlot& slot = stream->acks ? stream->path->acks : stream->path->control;
  const SideStreamPtr old = slot.get();
  if (old != nullptr && first && (!old->ours || !old->up())) closeStream(old);
  if (!slot.used()) slot.set(stream);
  return true;
}

void Engine::readStream(int fd) {
  const auto found = streams_.find(fd);
  if (found == streams_.end()) return;
  const SideStreamPtr stream = found->second;
  if (stream->ours && !stream->up()) {
    if (stream->refused() && stream->path != nullptr) stream->path->refused = true;
    return;
  }
  const bool goesOn = stream->read([&](const uint8_t* data, size_t size) { onStreamDatagram(stream, data, size); });
  if (goesOn) return;
  // One that rests for hours may be ended by whatever lies between.
  if (stream->refused() && stream->path != nullptr && !stream->rests) stream->path->refused = true;
  closeStream(stream);
}

void Engine::onStreamDatagram(const SideStreamPtr& stream, const uint8_t* data, size_t size) {
  const auto parsed = Parsed::open(data, size);
  if (!parsed) return void(dropped_.malformed++);
  if (stream->acks && stream->peer != nullptr && parsed->header().keyOfSender == 0) return;
  Peer* peer = admit(*parsed);
  if (peer == nullptr || (stream->peer != nullptr && stream->peer != peer)) return;
  bool rests = true;  // nothing is said
  (void)parsed->forEach([&](Type type, Reader&) { rests &= type == Type::Filler; });
  const bool known = claim(stream, *peer, rests);
  if (stream->rests) return;
  hearStream(*stream, *peer, *parsed);
  // A Hello tells which NICs it has, and only then whose path the stream is on: the answer goes back by it.
  if (!known) (void)claim(stream, *peer, rests);
}

void Engine::hearStream(SideStream& stream, Peer& peer, const Parsed& parsed) {
  Path* path = stream.path;
  stream.heardNs = runNs();
  if (path != nullptr && path->askedNs != 0 && path->tcpAlone == 0) path->tcpAlone = stream.heardNs;
  heardOver(peer, stream.nic, path, parsed.header());
  if (stream.acks) return takeAcks(peer, parsed);
  seeRemoteLinks(peer, parsed.header());
  answers_ = byUdp_ = false;
  if (!parsed.forEach([&](Type type, Reader& reader) { dispatch(peer, path, type, reader); })) dropped_.malformed++;
}

// ---- the clock --------------------------------------------------------------------------------------------------

/// Says whose the stream is; what waits for an answer is asked again at once. To a process that does not know us yet
/// that is a Hello.
void Engine::greet(Peer& peer, SideStream& stream) const {
  if (!peer.known && stream.acks) return;
  if (!peer.known) {
    stream.greeted = true;
    for (const auto& [id, connection] : peer.sends) connection->askAgain();
    return;
  }
  Datagram d = peer.datagram();
  if (!stream.acks) d.add(Ping{kNoRound});
  const std::vector<uint8_t>& bytes = d.seal(peer.key);
  if (!side_.passes(stream.nic, stream.from, bytes, SideChannel::Way::Tcp) || !stream.send(bytes)) return;
  stream.greeted = true;
  peer.streams = true;
  if (stream.acks) return;
  for (const auto& [id, connection] : peer.sends) connection->askAgain();
}

void Engine::sayUdp(const Peer& peer, Path& path, bool passes) {
  if (path.saidUdpLost == !passes) return;
  path.saidUdpLost = !passes;
  auto line = events_.line("side");
  line.add("nic", nics_[path.local].name).add("peer", peer.describe());
  line.add("peer_nic", peer.remote()[path.remote].dev).add("way", passes ? "udp" : "tcp");
  if (udpLost_[path.local] == !passes) return;  // once a NIC
  udpLost_[path.local] = !passes;
  if (passes) return info_("R2CC: UDP passes again on " + nics_[path.local].name);
  warn_("R2CC: UDP does not pass between " + nics_[path.local].name + " and peer " + peer.describe() +
        " (a firewall?): acknowledgements and hand-shakes go over TCP there. Allow UDP between these hosts");
}

/// A lane stood still on it: as much as data would be goes over a stream, and a question behind it.
void Engine::proveData(Peer& peer, Path& path, SideStream& stream, int64_t now) const {
  if (now - path.lastPing < kAskAgainNs && stream.provedNs != 0) return;
  if (stream.provedNs == 0) {
    for (size_t i = 0; i < kFillers; i++) {
      Datagram d = peer.datagram();
      d.add(Encoded{Type::Filler, std::vector<uint8_t>(kFillerBytes)});
      const std::vector<uint8_t>& bytes = d.seal(peer.key);
      if (side_.passes(path.local, peer.remote()[path.remote], bytes, SideChannel::Way::Tcp)) (void)stream.send(bytes);
    }
    stream.provedNs = now;
  }
  path.lastPing = now;
  Datagram d = peer.datagram();
  d.add(Ping{kDataRound});
  const std::vector<uint8_t>& bytes = d.seal(peer.key);
  if (side_.passes(path.local, peer.remote()[path.remote], bytes, SideChannel::Way::Tcp)) (void)stream.send(bytes);
}

void Engine::tickStreams(Peer& peer, int64_t now) {
  if (peer.sends.empty() && peer.receivesById.empty()) return;
  for (const auto& path : peer.paths()) tickStreamsOf(peer, *path, now);
}

void Engine::tickStreamsOf(Peer& peer, Path& path, int64_t now) {
  if (path.trustData(now)) {
    peer.plansVersion++;
    pathEvent(peer, path, "up", "data");
  }
  const SideStreamPtr control = path.control.get();
  const bool proves = path.provesData(now);
  // Before data needs it: whether anything passes here.
  const bool unknown = path.udpHeard == 0 && path.askedNs == 0 && peer.known && path.use != PathUse::SideOnly;
  if (unknown && linked(path)) peer.ping(path, kNoRound, now);
  if (control == nullptr) {
    const bool unanswered = path.askedNs != 0 && now - path.askedNs >= kUdpPatienceNs;
    if ((unanswered || proves) && linked(path) && now >= path.nextStream) return openStreams(peer, path, now);
    return keepSpare(peer, path, now);
  }
  restUntil_ = std::min(restUntil_, now + kAskAgainNs);
  if (!control->ours && proves && now >= path.nextStream) return openStreams(peer, path, now);
  if (!control->ours) return;
  const bool deadUnnoticed = control->woken && control->heardNs == 0 && now - control->sinceNs > kConnectNs;
  if (deadUnnoticed && control->quietNs() > kConnectNs) return closeStreams(path);
  if (!control->up() || (proves && control->provedNs != 0 && now - control->provedNs > kConnectNs)) {
    restUntil_ = now;
    if (now - control->sinceNs > kConnectNs) closeStreams(path);
    return;
  }
  for (const SideStreamPtr& s : {control, path.acks.get()}) {
    if (s != nullptr && s->ours && !s->greeted && s->up()) greet(peer, *s);
  }
  if (control->heardNs != 0) path.streamTries = 0;
  if (proves) return proveData(peer, path, *control, now);
  proveUdp(peer, path, *control, now);
}

/// A question by UDP alone, again and again, while a stream does its work.
void Engine::proveUdp(Peer& peer, Path& path, const SideStream& control, int64_t now) {
  const bool deaf = path.udpHeard < path.lastProof;  // else it is heard, and does not hear us
  const bool lost = deaf ? path.tcpAlone != 0 && path.udpMisses >= kMissesToSay : path.udpMisses >= kMissesOneWay;
  if (lost) sayUdp(peer, path, /*passes=*/false);
  if (now - path.lastProof < kProofEveryNs) return;
  const bool answered = path.proofHeard >= path.lastProof;
  if (!answered && now - path.lastProof < kProofWaitNs) return;
  if (!answered) path.udpProofs = 0;
  if (!answered && (deaf || control.heardNs >= path.lastProof)) path.udpMisses++;
  if (path.udpProofs < kProofs) return peer.pingByUdp(path, now);
  closeStreams(path);
  sayUdp(peer, path, /*passes=*/true);
}

/// Before a path is given up because UDP is silent on it: whether TCP is, too. Where data is on its way and the kernel
/// hears nothing, it is; else a stream is asked. Transports that cannot be looked into are believed to be what UDP
/// says, where UDP ever passed.
bool Engine::silentByTcp(Peer& peer, Path& path, int64_t now) {
  if (!path.data) return true;
  bool unseen = true;
  for (const auto& [id, connection] : peer.sends) {
    const SendConnection::Waits waits = connection->waitsOn(path, kStillNs);
    if (waits == SendConnection::Waits::Yes) return true;
    if (waits == SendConnection::Waits::No) unseen = false;
  }
  if (unseen && path.udpHeard != 0) return true;
  const SideStreamPtr stream = path.control.get();
  if (stream != nullptr) {
    return now - std::max(stream->heardNs, stream->sinceNs) > kTcpSilenceNs;
  }
  if (now < path.nextStream) return true;  // tried, in vain
  openStreams(peer, path, now);
  return path.control.get() == nullptr;
}

// ---- where our NICs are -----------------------------------------------------------------------------------------

bool Engine::sharesSubnet(size_t nic) const {
  for (size_t i = 0; i < nics_.size(); i++) {
    if (i != nic && nics_[i].address.family == AF_INET && nics_[i].address.sameSubnet(nics_[nic].address)) return true;
  }
  return false;
}

/// A lane could not be kept on its NIC: neighbours are told where that is. `forGood`: that did not help either.
void Engine::onMisplaced(const Lane& lane, bool forGood) {
  const size_t nic = lane.path->local;
  announceUntil_ = std::max(announceUntil_, runNs() + kAnnounceNs);
  const bool filtered = !mayBindDevice(nics_[nic].name);
  if (astray_[nic] || !sharesSubnet(nic) || (!forGood && !filtered)) return;
  astray_[nic] = true;
  warn_("R2CC: " + nics_[nic].name + " shares a subnet with another NIC, and its traffic cannot be kept on it (" +
        (filtered ? "net.ipv4.conf.*.rp_filter is 1; 0 or 2 would do"
                  : "by ARP its address is another NIC's, or Linux is older than 5.7; arp_ignore=1 would do") +
        "): the routing table decides, and a fault of the other NIC stops both");
}

void Engine::announce(int64_t now) {
  if (now >= announceUntil_ || now < nextAnnounce_) return;
  nextAnnounce_ = now + kAnnounceEveryNs;
  for (size_t i = 0; i < nics_.size(); i++) {
    const bool makesSense = linkUp(i) && nics_[i].address.family == AF_INET && sharesSubnet(i);
    if (makesSense && mayBindDevice(nics_[i].name)) side_.announce(nics_[i], i);
  }
}

}  // namespace r2cc
