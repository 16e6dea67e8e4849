#include "health/second_way.h"

#include <algorithm>
#include <string>
#include <utility>

#include "data/send_connection.h"

namespace r2cc {
namespace {

constexpr int64_t kUdpPatienceNs = msToNs(20);   // a question by UDP without an answer: then over TCP as well
constexpr int64_t kConnectNs = msToNs(300);      // a stream that is not up by then is begun anew
constexpr int64_t kFirstConnectNs = msToNs(30);  // the first of a peer that may have ended: an answer came in elsewhere
constexpr int64_t kTcpSilenceNs = msToNs(40);    // no answer over a stream either
constexpr int64_t kStillNs = msToNs(8);          // a lane whose kernel hears nothing, though something is on its way
constexpr int64_t kProofEveryNs = msToNs(200);
constexpr int kProofs = 10;       // then UDP passes again and the stream may end
constexpr int kProofsToTell = 5;  // sooner, as the other end may be first to end it
constexpr int64_t kProofWaitNs = msToNs(250);
constexpr int64_t kFirstTryNs = msToNs(100), kMostTryNs = msToNs(8000), kMostTryIfNeededNs = msToNs(400);
constexpr int kMostTries = 7;
constexpr int kProofsToSay = 3;  // that came by TCP, and nothing by UDP
constexpr int64_t kAskAgainNs = msToNs(20);
constexpr size_t kFillers = 48, kFillerBytes = 1280;  // 60 KiB: what a kernel cuts into packets of full size
constexpr int64_t kFirstSpareNs = msToNs(100), kNextSpareNs = msToNs(5000);
constexpr int64_t kSpareUpNs = msToNs(300);
constexpr size_t kMostSpares = 256;  // of a process: each is a descriptor at both ends

bool linked(const Path& path) { return path.linked || path.within; }

bool used(const Peer& peer, const Path& path) {
  return std::any_of(peer.sends.begin(), peer.sends.end(),
                     [&](const auto& entry) { return !entry.second->over() && entry.second->planPath() == &path; });
}

}  // namespace

void SecondWay::tick(Peer& peer, int64_t now) {
  if (peer.sends.empty() && peer.receivesById.empty()) return;
  for (const auto& path : peer.paths()) tickPath(peer, *path, now);
}

void SecondWay::tickPath(Peer& peer, Path& path, int64_t now) {
  if (path.trustData(now)) {
    peer.plansVersion++;
    report_.path(peer, path, "up", "data");
  }
  const SideStreamPtr control = path.control.get();
  if (path.knocks != nullptr || (control != nullptr && peer.brokeOff() && control->stuck())) knock(peer, path, now);
  if (control == nullptr && !peer.counts(path)) return;
  const bool proves = path.provesData(now);
  // Before data needs it: whether anything passes here.
  const bool unknown = path.udpHeard == 0 && path.askedNs == 0 && peer.known && path.use != PathUse::SideOnly;
  if (unknown && linked(path)) peer.ping(path, kNoRound, now);
  if (control == nullptr) {
    const bool unanswered = path.askedNs != 0 && now - path.askedNs >= kUdpPatienceNs;
    if ((unanswered || proves) && linked(path) && now >= path.nextStream) return open(peer, path, now);
    return keepSpare(peer, path, now);
  }
  shared_.agenda.restUntil(now + kAskAgainNs);
  // What lies unread came by UDP: a late process reads its streams first, and then only for a while.
  if (path.tcpProofs >= kProofsToSay && !shared_.side.unread(path.local)) {
    path.udpProofs = 0;
    reportUdp(peer, path, /*passes=*/false);
  }
  if (path.udpProofs >= kProofsToTell) reportUdp(peer, path, /*passes=*/true);
  if (!control->ours && proves && now >= path.nextStream) return open(peer, path, now);
  if (!control->ours) return;
  const bool deadUnnoticed = control->woken && control->heardNs == 0 && now - control->sinceNs > kConnectNs;
  if (deadUnnoticed && control->quietNs() > kConnectNs) return streams_.closeOf(path);
  if (!control->up() || (proves && control->provedNs != 0 && now - control->provedNs > kConnectNs)) {
    shared_.agenda.restUntil(now);
    const int64_t tried = now - control->sinceNs;
    const bool first = path.streamTries == 1 && peer.brokeOff() && !control->up();
    if (first && tried > kFirstConnectNs) return open(peer, path, now);
    if (tried > kConnectNs) streams_.closeOf(path);
    return;
  }
  for (const SideStreamPtr& s : {control, path.acks.get()}) {
    if (s != nullptr && s->ours && !s->greeted && s->up()) greet(peer, *s);
  }
  peer.streamed = true;
  if (control->heardNs != 0) path.streamTries = 0;
  if (proves) return proveData(peer, path, *control, now);
  proveUdp(peer, path, now);
}

void SecondWay::hurry(Path& path) {
  path.askedNs = std::min(path.askedNs == 0 ? INT64_MAX : path.askedNs, runNs() - kUdpPatienceNs);
}

bool SecondWay::send(const Peer& peer, SideStream& stream, Datagram& datagram) const {
  const std::vector<uint8_t>& bytes = datagram.seal(peer.key);
  return shared_.side.passes(stream.nic, stream.from, bytes, SideChannel::Way::Tcp) && stream.send(bytes);
}

void SecondWay::open(Peer& peer, Path& path, int64_t now) {
  streams_.closeOf(path);
  path.askedNs = now - kUdpPatienceNs;
  const bool freely = path.streamTries % 2 == 1;  // where NICs share a subnet, answers may come in by another
  const int64_t most = peer.streams ? kMostTryIfNeededNs : kMostTryNs;
  path.nextStream = now + std::min(kFirstTryNs << std::min(path.streamTries++, kMostTries), most);
  const bool fresh = path.provesData(now);  // an old one proves less
  if (!fresh && wakeSpare(path, now)) return greet(peer, *path.control.get());
  for (const bool acks : {false, true}) {
    SideStreamPtr stream = streams_.connect(peer, path, acks, freely);
    if (stream != nullptr) (acks ? path.acks : path.control).set(std::move(stream));
  }
}

/// Asks whether the port still takes connections, beside a stream that hears nothing: that may be all there is while
/// UDP and new connections are lost, and must not be closed.
void SecondWay::knock(Peer& peer, Path& path, int64_t now) {
  if (const SideStreamPtr asks = path.knocks) {
    const int64_t patience = path.streamTries == 1 ? kFirstConnectNs : kConnectNs;
    if (asks->up() || now - asks->sinceNs > patience) streams_.close(asks);
    return;
  }
  if (!linked(path) || now < path.nextStream) return;
  const bool freely = path.streamTries % 2 == 1;
  path.nextStream = now + std::min(kFirstConnectNs << std::min(path.streamTries++, kMostTries), kMostTryIfNeededNs);
  path.knocks = streams_.connect(peer, path, /*acks=*/false, freely);
  if (path.knocks != nullptr) path.knocks->rests = true;
}

/// Says whose the stream is; what waits for an answer is asked again at once. To a process that does not know us yet
/// that is a Hello.
void SecondWay::greet(Peer& peer, SideStream& stream) const {
  if (!peer.known && stream.acks) return;
  if (!peer.known) {
    stream.greeted = true;
    for (const auto& [id, connection] : peer.sends) connection->askAgain();
    return;
  }
  Datagram d = peer.datagram();
  if (!stream.acks) d.add(Ping{kNoRound});
  if (!send(peer, stream, d)) return;
  stream.greeted = true;
  peer.streams = true;
  if (stream.acks) return;
  for (const auto& [id, connection] : peer.sends) connection->askAgain();
}

// ---- what a stream proves ---------------------------------------------------------------------------------------

void SecondWay::reportUdp(const Peer& peer, Path& path, bool passes) {
  if (path.saidUdpLost == !passes) return;
  path.saidUdpLost = !passes;
  const std::string& nic = shared_.nics[path.local].name;
  auto line = shared_.events.line("side");
  line.add("nic", nic).add("peer", peer.describe());
  line.add("peer_nic", peer.remote()[path.remote].dev).add("way", passes ? "udp" : "tcp");
  if (udpLost_[path.local] == !passes) return;  // once a NIC
  udpLost_[path.local] = !passes;
  if (passes) return shared_.info("R2CC: UDP passes again on " + nic);
  shared_.warn("R2CC: UDP does not pass between " + nic + " and peer " + peer.describe() +
               " (a firewall?): acknowledgements and hand-shakes go over TCP there. Allow UDP between these hosts");
}

/// A lane stood still on it: as much as data would be goes over a stream, and a question behind it.
void SecondWay::proveData(Peer& peer, Path& path, SideStream& stream, int64_t now) const {
  if (now - path.lastPing < kAskAgainNs && stream.provedNs != 0) return;
  for (size_t i = 0; i < kFillers && stream.provedNs == 0; i++) {
    Datagram d = peer.datagram();
    d.add(Encoded{Type::Filler, std::vector<uint8_t>(kFillerBytes)});
    (void)send(peer, stream, d);
  }
  if (stream.provedNs == 0) stream.provedNs = now;
  path.lastPing = now;
  Datagram d = peer.datagram();
  d.add(Ping{kDataRound});
  (void)send(peer, stream, d);
}

/// The same question by UDP alone and by the stream alone, again and again. Each end sees for itself what comes by
/// which: where nothing does, the path is cut or the peer is late, and nobody blames UDP.
void SecondWay::proveUdp(const Peer& peer, Path& path, int64_t now) {
  if (now - path.lastProof < kProofEveryNs) return;
  const bool answered = path.proofHeard >= path.lastProof;
  if (!answered && now - path.lastProof < kProofWaitNs) return;
  if (!answered) path.udpProofs = 0;
  if (path.udpProofs < kProofs) return peer.pingEachWay(path, now);
  streams_.closeOf(path);
}

bool SecondWay::silent(Peer& peer, Path& path, int64_t now) {
  if (!path.data) return true;
  bool unseen = true;
  for (const auto& [id, connection] : peer.sends) {
    const SendConnection::Waits waits = connection->waitsOn(path, kStillNs);
    if (waits == SendConnection::Waits::Yes) return true;
    if (waits == SendConnection::Waits::No) unseen = false;
  }
  if (unseen && path.udpHeard != 0) return true;
  const SideStreamPtr stream = path.control.get();
  if (stream != nullptr) return now - std::max(stream->heardNs, stream->sinceNs) > kTcpSilenceNs;
  if (now < path.nextStream) return true;  // tried, in vain
  open(peer, path, now);
  return path.control.get() == nullptr;
}

// ---- spares -----------------------------------------------------------------------------------------------------

void SecondWay::keepSpare(Peer& peer, Path& path, int64_t now) {
  if (path.nextSpare == 0) path.nextSpare = now + kFirstSpareNs;
  if (const SideStreamPtr spare = path.spare) {
    const bool late = !spare->up() && now - spare->sinceNs > kSpareUpNs;
    if (!path.up() || late) return streams_.close(spare);
    peer.streamed |= spare->up();
    if (!spare->greeted && spare->up()) introduce(peer, *spare);
    return;
  }
  if (now < path.nextSpare) return;
  path.nextSpare = now + kNextSpareNs;
  if (!peer.weConnect || !peer.known || !path.up() || path.udpHeard == 0 || !used(peer, path)) return;
  if (streams_.resting() >= kMostSpares) return;
  path.spare = streams_.connect(peer, path, /*acks=*/false, /*freely=*/false);
  if (path.spare != nullptr) path.spare->rests = true;
}

/// Says whose it is, and nothing else.
void SecondWay::introduce(const Peer& peer, SideStream& spare) const {
  Datagram d = peer.datagram();
  d.add(Encoded{Type::Filler, std::vector<uint8_t>(1)});
  spare.greeted = send(peer, spare, d);
}

/// True: it is the path's stream now.
bool SecondWay::wakeSpare(Path& path, int64_t now) {
  const SideStreamPtr spare = std::exchange(path.spare, nullptr);
  if (spare == nullptr) return false;
  if (!spare->greeted || !spare->up()) return streams_.close(spare), false;
  spare->rests = spare->greeted = false;
  spare->woken = true;
  spare->sinceNs = now;
  path.control.set(spare);
  return true;
}

}  // namespace r2cc
