#include "paths/peer.h"

#include <arpa/inet.h>

#include <algorithm>

namespace r2cc {

Peer::Peer(uint64_t id, bool weConnect, PairKey key, const Self& self, const SideChannel& side,
           const std::vector<LocalNic>& local, const Probation& probation)
    : id(id),
      weConnect(weConnect),
      key(std::move(key)),
      lastHeard(runNs()),
      self_(self),
      side_(side),
      local_(local),
      probation_(probation) {}

namespace {
constexpr int64_t kAnswerHalfNs = msToNs(500);
constexpr int64_t kSeriesNs = msToNs(100);  // rounds farther apart have nothing to do with each other
constexpr int64_t kRoundsAnAnswer = 4;
constexpr int64_t kMostRoundNs = kSeriesNs;
constexpr int64_t kTwinNs = msToNs(1000);        // within which what was sent both ways came both ways
constexpr int64_t kMostAnswerNs = msToNs(1000);  // one that lay in a queue for longer must not blind us for as long
}  // namespace

bool Peer::hearsTwice(int64_t now) const {
  if (now - streamEndedNs < kTwinNs) return true;
  return streams && std::any_of(paths_.begin(), paths_.end(),
                                [](const auto& path) { return path->control.used() || path->acks.used(); });
}

void Peer::recount() {
  const bool whole = std::all_of(paths_.begin(), paths_.end(),
                                 [](const auto& path) { return !path->data || (path->up() && path->capacity >= 1); });
  if (!whole) plansVersion++;
}

Path* Peer::find(size_t localNic, const NicAddress& from) const {
  for (const auto& path : paths_) {
    if (path->local == localNic && remote_[path->remote].sameSocket(from)) return path.get();
  }
  return nullptr;
}

Path* Peer::findByAddress(size_t localNic, const NicAddress& from) const {
  for (const auto& path : paths_) {
    if (path->local == localNic && remote_[path->remote].sameHost(from)) return path.get();
  }
  return nullptr;
}

std::string Peer::describe() const {
  const std::lock_guard<std::mutex> lock(remoteMutex_);
  if (remote_.empty()) return "unknown";
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(remote_[0].family, remote_[0].ip.data(), text, sizeof(text));
  return text;
}

std::array<std::string, 3> Peer::nicsTowards() const {
  std::array<std::string, 3> lists;
  for (size_t nic = 0; nic < local_.size(); nic++) {
    const auto leads = [&](const auto& path) { return path->local == nic && path->data && !path->within; };
    const auto path = std::find_if(paths_.begin(), paths_.end(), leads);
    if (path == paths_.end()) continue;
    const bool there = (remoteUp >> remote_[(*path)->remote].dev & 1) != 0;
    std::string& list = lists[!linkUpHere(nic) ? 0 : !there ? 1 : 2];
    list += (list.empty() ? "" : ", ") + local_[nic].name;
  }
  return lists;
}

std::string Peer::lostLinks(const std::string& host) const {
  const auto lists = nicsTowards();
  return (lists[0].empty() ? "" : "; no link at " + host + ": " + lists[0] + " (netlink, or the NIC's driver)") +
         (lists[1].empty() ? "" : "; no link at peer " + describe() + ": " + lists[1]);
}

void Peer::beginRound(int64_t now) {
  // The first of a series, or the first that nobody has answered yet.
  if (answeredRound == round || now - sentAt(round) > kSeriesNs) openSince = now;
  round++;
  lastRound = now;
  roundNs[round % roundNs.size()] = now;
}

/// When a round was sent; of one that is long forgotten, at least so long ago.
int64_t Peer::sentAt(uint32_t which) const {
  const uint32_t back = std::min<uint32_t>(round - which, roundNs.size() - 1);
  return roundNs[(round - back) % roundNs.size()];
}

void Peer::answered(Path& path, uint32_t which, int64_t now) {
  if (which <= path.pongRound || which > round) return;
  path.pongRound = which;
  int64_t took = now - sentAt(which);
  if (which > answeredRound) {
    // Nobody answered anything since: what was lost in that time is no quicker than what is late.
    took = std::max(took, now - openSince);
    answeredRound = which;
    openSince = sentAt(std::min(which + 1, round));
  }
  // A stream keeps what it was asked before the path died until the path is back: that says how long it was away.
  if (path.diedAt() >= sentAt(which)) return;
  took = std::min(took, kMostAnswerNs);
  if (took >= answerNs(now)) slowestNs = took, slowestAt = now;
}

int64_t Peer::answerNs(int64_t now) const { return faded(slowestNs, slowestAt, now, kAnswerHalfNs); }

int64_t Peer::roundEveryNs(int64_t now) const {
  const int64_t unanswered = answeredRound == round ? 0 : now - openSince;
  return std::clamp(std::max(answerNs(now), unanswered) / kRoundsAnAnswer, kRoundNs, kMostRoundNs);
}

Datagram Peer::datagram() const {
  Header header;
  header.from = self_.id;
  header.to = id;
  header.seq = ++seq_;
  header.keyOfSender = weConnect ? 0 : 1;
  self_.show(header);
  return Datagram(header);
}

bool Peer::sendByStream(const Path& path, const StreamSlot& slot, const std::vector<uint8_t>& bytes) const {
  const SideStreamPtr stream = slot.get();
  if (stream == nullptr) return false;
  if (!side_.passes(path.local, whereIs(path), bytes, SideChannel::Way::Tcp)) return true;
  return stream->send(bytes);
}

bool Peer::send(const Path& path, Datagram& datagram) const {
  const std::vector<uint8_t>& bytes = datagram.seal(key);
  const bool sent = side_.send(path.local, whereIs(path), bytes, path.pinned);
  return sendByStream(path, path.control, bytes) || sent;
}

bool Peer::sendByUdp(const Path& path, Datagram& datagram) const {
  return side_.send(path.local, whereIs(path), datagram.seal(key), path.pinned);
}

bool Peer::sendByTcp(const Path& path, Datagram& datagram) const {
  return sendByStream(path, path.control, datagram.seal(key));
}

bool Peer::sendToAckPort(const Path& path, Datagram& datagram) const {
  NicAddress to = whereIs(path);
  if (to.ackPort != 0) to.port = to.ackPort;
  const std::vector<uint8_t>& bytes = datagram.seal(key);
  const bool sent = side_.send(path.local, to, bytes, path.pinned);
  return sendByStream(path, path.acks.used() ? path.acks : path.control, bytes) || sent;
}

void Peer::ping(Path& path, uint32_t round, int64_t now) const {
  path.lastPing = now;
  if (path.askedNs == 0) path.askedNs = now;
  sendOn(path, Ping{round});
}

void Peer::pingEachWay(Path& path, int64_t now) const {
  path.lastProof = now;
  Datagram byUdp = datagram(), byTcp = datagram();  // one sent twice is heard once
  byUdp.add(Ping{kOneWayRound});
  byTcp.add(Ping{kOneWayRound});
  sendByUdp(path, byUdp);
  sendByTcp(path, byTcp);
}

void Peer::sendAll(const std::vector<const Path*>& paths, const std::vector<Encoded>& messages) const {
  for (const Path* path : paths) {
    Datagram d = datagram();
    for (const Encoded& message : messages) {
      if (d.add(message)) continue;
      send(*path, d);
      d = datagram();
      d.add(message);
    }
    send(*path, d);
  }
}

void Peer::flushOutbox() {
  if (!outbox_.empty()) sendAll(best(2), outbox_);
  outbox_.clear();
  if (outboxEverywhere_.empty()) return;
  std::vector<const Path*> linked;
  // Not where a link is down: the kernel would ask for the neighbour in vain, and a second later only once more.
  for (const auto& path : paths_) {
    if (path->linked && counts(*path)) linked.push_back(path.get());
  }
  sendAll(linked, outboxEverywhere_);
  outboxEverywhere_.clear();
}

std::vector<const Path*> Peer::best(size_t count) const {
  std::vector<const Path*> out;
  const auto take = [&](auto wanted) {
    const auto from = static_cast<std::ptrdiff_t>(out.size());
    for (const auto& path : paths_) {
      if (path->data && wanted(*path)) out.push_back(path.get());
    }
    const auto later = [](const Path* a, const Path* b) { return a->lastHeard > b->lastHeard; };
    std::stable_sort(out.begin() + from, out.end(), later);
    if (out.size() > count) out.resize(count);
  };
  take([](const Path& p) { return p.state() == PathState::Up && !p.doubted(); });
  take([](const Path& p) { return p.state() == PathState::Up && p.doubted(); });
  take([](const Path& p) { return p.state() == PathState::Probation; });
  take([](const Path& p) { return p.state() == PathState::Suspect; });
  take([](const Path& p) { return p.state() == PathState::Dead; });
  for (const auto& path : paths_) {
    if (!path->data) out.push_back(path.get());
  }
  return out;
}

void Peer::flushAcks(const Path& path, bool hurry) {
  // Who finds somebody else at it leaves word: that one may have read our counts already, and goes round once more.
  if (acksAsked_.fetch_add(1) != 0) return;
  int asked = 0;
  do {
    asked = acksAsked_;
    const Owned owned(ackOwner, Owned::Wait::Yes);
    collectAcks(path, hurry);
  } while (!acksAsked_.compare_exchange_strong(asked, 0));
}

void Peer::collectAcks(const Path& path, bool hurry) {
  acksHeld = false;
  acksDue.exchange(0, std::memory_order_acq_rel);  // then read: what is counted later is acknowledged later
  std::vector<Ack> acks;
  for (Delivered* delivered : receives) {
    const uint64_t count = delivered->count.load(std::memory_order_acquire);
    if (count == delivered->acked) continue;
    acks.push_back({delivered->connection, count});
    delivered->acked = count;
  }
  if (acks.empty()) return;
  acksSent++;
  sendAcks(path, acks);
  if (!hurry) return;
  for (const Path* other : sideOnly()) sendAcks(*other, acks);
}

void Peer::sendAcks(const Path& path, const std::vector<Ack>& acks) const {
  Datagram d = datagram();
  for (const Ack& ack : acks) {
    if (d.add(ack)) continue;
    sendToAckPort(path, d);
    d = datagram();
    d.add(ack);
  }
  sendToAckPort(path, d);
}

}  // namespace r2cc
