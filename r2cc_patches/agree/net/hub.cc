#include "agree/net/hub.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"

namespace r2cc::agree {
namespace {

constexpr size_t kMostCallers = 64;  // beside the ranks, who may all call at once; the oldest has to go
constexpr int kAcceptedInTurn = 64;
constexpr int64_t kCallerNs = msToNs(5000);
constexpr int64_t kNoDescriptorNs = msToNs(100);
constexpr rlim_t kSpared = 4;  // of the process's descriptors a quarter
constexpr size_t kBusy = 4;    // messages that a rank has not acknowledged

}  // namespace

Hub::Hub(Loop& loop, Upward& up, Fd listener, const std::vector<Card>& cards, const Patience& patience,
         const Encryption* encryption)
    : loop_(loop),
      up_(up),
      listener_(std::move(listener)),
      key_(cards.front().key),
      agreement_(cards.front().agreement),
      patience_(patience),
      encryption_(encryption),
      watch_(loop.watch(listener_.get(), EPOLLIN, *this)) {
  for (size_t rank = 1; rank < cards.size(); rank++) {
    peers_.push_back(std::make_unique<Peer>(*this, static_cast<int>(rank)));
  }
}

Hub::~Hub() {
  while (!callers_.empty()) forget(*callers_.front());
  if (listening_) loop_.unwatch(watch_, listener_.get());
}

void Hub::send(int rank, const Message& message) {
  if (!peer(rank).left) peer(rank).line.send(message);
}

bool Hub::able() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const auto& peer) { return peer->line.attached() && peer->line.link().waiting() <= kBusy; });
}

bool Hub::delivered() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    return peer->left || peer->closed || peer->unreached || peer->line.link().allAcknowledged();
  });
}

// ---- the door

void Hub::ready(uint32_t /*events*/) {
  for (int i = 0; i < kAcceptedInTurn; i++) {
    crowded_ = crowded();
    if (crowded_) return rest();
    Fd fd = acceptFrom(listener_);
    if (!fd.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) return rest();
    if (!fd.valid()) return;
    if (callers_.size() >= kMostCallers + peers_.size()) giveUp(*callers_.front());
    callers_.push_back(std::make_unique<Caller>(*this, std::move(fd), loop_.now() + kCallerNs));
    Caller& caller = *callers_.back();
    caller.watch = loop_.watch(caller.channel.fd(), EPOLLIN, caller);
    onCaller(caller);  // the kernel has mostly waited until it said something
  }
}

/// The kernel gives out the lowest descriptor that is free. A part of them is left to the program: a switch can wait.
bool Hub::crowded() const {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
  const Fd next(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
  return !next.valid() || static_cast<rlim_t>(next.get()) >= files.rlim_cur - files.rlim_cur / kSpared;
}

/// They wait in the kernel until there is something to hold them with.
void Hub::rest() {
  loop_.unwatch(watch_, listener_.get());
  listening_ = false;
  listenAgainAt_ = loop_.now() + kNoDescriptorNs;
}

void Hub::onCaller(Caller& caller) {
  const bool open = caller.channel.fill();
  if (caller.rank < 0 && caller.channel.peek(kHelloBytes) != nullptr && !greet(caller)) return turnAway(caller);
  if (caller.rank >= 0 && caller.channel.peek(1) != nullptr) {
    // A Hello may be somebody else's, repeated. Only who knows the key can send a frame of this connection.
    if (const std::optional<Frame> first = caller.channel.next()) {
      if (first->seq != 0 || !peer(caller.rank).line.link().acknowledge(first->ack)) return turnAway(caller);
      return admit(caller);
    }
  }
  if (caller.channel.bad()) return turnAway(caller);
  if (!open) giveUp(caller);
}

bool Hub::greet(Caller& caller) {
  const uint8_t* bytes = caller.channel.peek(kHelloBytes);
  const std::optional<Hello> hello = readHello(bytes, agreement_);
  if (!hello || hello->rank < 1 || hello->rank > peers_.size()) return false;
  const Key door = doorKey(key_, agreement_, hello->rank);
  if (!genuine(bytes, door) || peer(static_cast<int>(hello->rank)).left) return false;
  caller.rank = static_cast<int>(hello->rank);
  caller.channel.take(kHelloBytes);
  const Welcome welcome{randomKey(), peer(caller.rank).line.link().received()};
  caller.channel.write(seal(*hello, welcome, door));
  const SessionKeys keys = sessionKeys(door, *hello, welcome, encryption_);
  caller.channel.secure(keys.up, keys.down, kMaxUp);
  return caller.channel.flush();  // a new connection takes these few bytes at once
}

void Hub::admit(Caller& caller) {
  Peer& who = peer(caller.rank);
  loop_.unwatch(caller.watch, caller.channel.fd());
  Channel channel = std::move(caller.channel);
  callers_.remove_if([&](const auto& one) { return one.get() == &caller; });
  who.line.attach(std::move(channel));
  who.closed = who.unreached = false;
  up_.reached(who.rank, std::exchange(who.wasUp, true));
  if (!who.line.drain([&](const Message& message) { take(who, message); })) lost(who);
}

void Hub::turnAway(Caller& caller) {
  up_.refused();
  forget(caller);
}

/// A rank may be slow, or call again because we were.
void Hub::giveUp(Caller& caller) { return caller.rank < 0 ? turnAway(caller) : forget(caller); }

void Hub::forget(Caller& caller) {
  loop_.unwatch(caller.watch, caller.channel.fd());
  callers_.remove_if([&](const auto& one) { return one.get() == &caller; });
}

// ---- the ranks

void Hub::onPeer(Peer& peer, uint32_t events) {
  if (!peer.line.onReady(events, [&](const Message& message) { take(peer, message); })) lost(peer);
}

void Hub::take(Peer& peer, const Message& message) {
  if (message.type == Type::Leave) peer.left = true;
  up_.received(peer.rank, message);
}

void Hub::lost(Peer& peer) {
  if (peer.line.forged()) up_.refused();
  peer.lostAt = loop_.now();
}

void Hub::tick(int64_t now) {
  while (!callers_.empty() && callers_.front()->until <= now) giveUp(*callers_.front());
  if (!listening_ && now >= listenAgainAt_) {
    watch_ = loop_.watch(listener_.get(), EPOLLIN, *this);
    listening_ = true;
  }
  if (now < deadline()) return;
  lookedAt_ = now;
  for (const auto& peer : peers_) {
    if (peer->line.attached() && !peer->line.tick(patience_.silenceNs)) lost(*peer);
    if (peer->line.attached() || peer->left || peer->unreached) continue;
    const int64_t since = now - peer->lostAt;
    const bool held = since > patience_.holdNs;
    const bool closed = since > patience_.closedNs && peer->wasUp && peer->line.closedByPeer() && !peer->closed;
    if (!held && !closed) continue;
    (held ? peer->unreached : peer->closed) = true;
    const std::string few = crowded_ ? ", as too few files may still be opened here (ulimit -n)" : "";
    const std::string first = (peer->wasUp ? peer->line.why() : "never heard of") + few;
    up_.unreached(peer->rank, first + ", and not back for " + std::to_string(since / 1000000) + " ms", !held);
  }
}

int64_t Hub::deadline() const {
  const int64_t shortest = std::min({patience_.silenceNs / 6, patience_.closedNs / 4, patience_.holdNs / 4, kLookNs});
  return lookedAt_ + std::max(shortest, msToNs(5));
}

}  // namespace r2cc::agree
