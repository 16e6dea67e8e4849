#include "paths/peer.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "nic/bind_nic.h"

namespace r2cc {

Peer::Peer(uint64_t id, bool weConnect, const Key& key, const Self& self, const SideChannel& side,
           const std::vector<LocalNic>& local, const Probation& probation)
    : id(id),
      weConnect(weConnect),
      key(key),
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
constexpr int64_t kMostAnswerNs = msToNs(1000);  // one that lay in a queue for longer must not blind us for as long

PathUse useOf(uint8_t flags, uint8_t remoteFlags) {
  const bool lastResort = (flags & remoteFlags & kLastResort) != 0;
  return (flags | remoteFlags) == 0 ? PathUse::Data : lastResort ? PathUse::LastResort : PathUse::SideOnly;
}
}  // namespace

std::vector<Path*> Peer::setRemote(const std::vector<NicAddress>& nics, uint32_t version) {
  const bool newer = version != 0 && version >= addressesVersion_;
  if (newer) addressesVersion_ = version;
  std::vector<Path*> moved;
  for (const NicAddress& nic : nics) {
    // Bits are shifted by `dev` and arrays indexed by a path's ends: a broken peer cannot make either too large.
    const bool sane = (nic.family == AF_INET || nic.family == AF_INET6) && nic.dev < kMaxNics;
    if (!sane || moveRemote(nic, newer, moved) || remote_.size() == kMaxNics) continue;
    const std::lock_guard<std::mutex> lock(remoteMutex_);
    remote_.push_back(nic);
  }
  addPaths();
  return moved;
}

/// True: that NIC is known, and where it is now, as far as the list is newer.
bool Peer::moveRemote(const NicAddress& nic, bool newer, std::vector<Path*>& moved) {
  const auto known =
      std::find_if(remote_.begin(), remote_.end(), [&](const NicAddress& old) { return old.dev == nic.dev; });
  if (known == remote_.end()) return false;
  if (!newer || (known->sameSocket(nic) && known->prefix == nic.prefix)) return true;
  const bool elsewhere = !known->sameSocket(nic);
  {
    const std::lock_guard<std::mutex> lock(remoteMutex_);
    *known = nic;
  }
  triedRouter_ = false;
  const auto index = static_cast<size_t>(known - remote_.begin());
  for (const auto& path : paths_) {
    if (path->remote != index) continue;
    place(*path);
    if (elsewhere) moved.push_back(path.get());
  }
  return true;
}

void Peer::moveLocal(size_t nic) {
  for (const auto& path : paths_) {
    if (path->local == nic) place(*path);
  }
  triedRouter_ = false;
  addPaths();
}

void Peer::addPaths() {
  const auto shared = [&](const NicAddress& nic) {
    return std::any_of(local_.begin(), local_.end(), [&](const LocalNic& l) { return l.address.sameSubnet(nic); });
  };
  // On our own host what goes to an address takes that address's own way, and no NIC's.
  const auto here = [&](const NicAddress& nic) {
    return std::any_of(local_.begin(), local_.end(), [&](const LocalNic& l) { return l.address.sameHost(nic); });
  };
  for (size_t l = 0; l < local_.size(); l++) {
    if (local_[l].address.family == 0) continue;
    for (size_t r = 0; r < remote_.size(); r++) {
      if (has(l, r)) continue;
      const bool fits = here(remote_[r])     ? local_[l].address.sameHost(remote_[r])
                        : shared(remote_[r]) ? local_[l].address.sameSubnet(remote_[r])
                                             : local_[l].address.family == remote_[r].family;
      if (fits) addPath(l, r);
    }
  }
}

/// Where data moves already, a path that joins has to show first that it works.
Path& Peer::addPath(size_t local, size_t remote) {
  const PathUse use = useOf(local_[local].address.flags, remote_[remote].flags);
  auto path = std::make_unique<Path>(static_cast<uint8_t>(local), static_cast<uint8_t>(remote), use, probation_);
  place(*path);
  if (connections > 0 && use != PathUse::SideOnly) (void)path->linkLost(runNs());
  plansVersion++;
  const std::lock_guard<std::mutex> lock(remoteMutex_);
  paths_.push_back(std::move(path));
  return *paths_.back();
}

bool Peer::has(size_t local, size_t remote) const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [&](const auto& path) { return path->local == local && path->remote == remote; });
}

/// Whether a router may join them.
bool Peer::mayMeet(size_t local, size_t remote) const {
  const NicAddress& nic = local_[local].address;
  const NicAddress& other = remote_[remote];
  return nic.family == other.family && useOf(nic.flags, other.flags) == PathUse::Data && !nic.sameHost(other) &&
         !has(local, remote);
}

void Peer::addByRouter() {
  if (std::exchange(triedRouter_, true)) return;
  for (size_t l = 0; l < local_.size(); l++) {
    for (size_t r = 0; r < remote_.size(); r++) {
      if (!mayMeet(l, r)) continue;
      const LocalNic& nic = local_[l];
      if (!leadsThere(nic.name, nic.address.sockaddr(), remote_[r].sockaddr())) continue;
      Path& path = addPath(l, r);
      path.byRouter = true;
    }
  }
}

Path* Peer::meet(size_t localNic, const NicAddress& from) {
  for (size_t r = 0; r < remote_.size(); r++) {
    if (!remote_[r].sameSocket(from) || !mayMeet(localNic, r)) continue;
    Path& path = addPath(localNic, r);
    path.byRouter = true;
    return &path;
  }
  return nullptr;
}

std::vector<const Path*> Peer::sideOnly() const {
  std::vector<const Path*> out;
  const std::lock_guard<std::mutex> lock(remoteMutex_);
  for (const auto& path : paths_) {
    if (!path->data) out.push_back(path.get());
  }
  return out;
}

void Peer::place(Path& path) const {
  const LocalNic& nic = local_[path.local];
  path.within = nic.address.sameHost(remote_[path.remote]);
  path.pinned = !path.within && leadsThere(nic.name, nic.address.sockaddr(), remote_[path.remote].sockaddr());
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

Path* Peer::route(uint8_t localDev, uint8_t remoteDev) const {
  Path* other = nullptr;
  for (const auto& path : paths_) {
    if (!path->data || path->byRouter || remote_[path->remote].dev != remoteDev) continue;
    if (path->local == localDev) return path.get();
    if (other == nullptr) other = path.get();
  }
  return other;
}

Path* Peer::anyRoute(uint8_t localDev) const {
  Path* other = nullptr;
  for (const auto& path : paths_) {
    if (!path->data) continue;
    if (path->local == localDev) return path.get();
    if (other == nullptr) other = path.get();
  }
  return other;
}

Path* Peer::pathOf(uint8_t local, uint8_t remoteDev) const {
  for (const auto& path : paths_) {
    if (path->local == local && remote_[path->remote].dev == remoteDev) return path.get();
  }
  return route(local, remoteDev);
}

bool Peer::apart(const Path& a, const Path& b) const {
  return local_[a.local].address.domain != local_[b.local].address.domain &&
         remote_[a.remote].domain != remote_[b.remote].domain;
}

bool Peer::kin(const Path& a, const Path& b) const {
  const bool here = a.local != b.local && local_[a.local].address.domain == local_[b.local].address.domain;
  const bool there = a.remote != b.remote && remote_[a.remote].domain == remote_[b.remote].domain;
  return here || there;
}

bool Peer::hasApart(const Path& from) const {
  const int64_t now = runNs();
  return std::any_of(paths_.begin(), paths_.end(), [&](const auto& path) {
    return path->data && path->carriesData() && !path->doubted() && !path->mute(now) && apart(*path, from);
  });
}

bool Peer::counts(const Path& path) const {
  if (!path.byRouter || path.heard()) return true;
  return std::none_of(paths_.begin(), paths_.end(),
                      [](const auto& other) { return other->data && !other->byRouter && other->up(); });
}

std::string Peer::describe() const {
  const std::lock_guard<std::mutex> lock(remoteMutex_);
  if (remote_.empty()) return "unknown";
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(remote_[0].family, remote_[0].ip.data(), text, sizeof(text));
  return text;
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
  took = std::min(took, kMostAnswerNs);
  if (took >= answerNs(now)) slowestNs = took, slowestAt = now;
}

int64_t Peer::answerNs(int64_t now) const {
  return slowestNs >> std::min<int64_t>((now - slowestAt) / kAnswerHalfNs, 62);
}

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
  header.nicsUp = self_.nicsUp.load(std::memory_order_relaxed);
  header.nicsVersion = self_.nicsVersion.load(std::memory_order_relaxed);
  header.nicsHeard = self_.nicsHeard.load(std::memory_order_relaxed);
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
