#include "spoke.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"

namespace r2cc::agree {
namespace {

constexpr int64_t kCallNs = msToNs(3000);  // one attempt
constexpr int64_t kFirstPauseNs = msToNs(10), kLongestPauseNs = msToNs(1000);

}  // namespace

Spoke::Spoke(Loop& loop, Upward& up, int rank, const Card& root, const std::string& from, const Patience& patience)
    : loop_(loop),
      up_(up),
      from_(parseAddress(from, 0)),
      root_(parseAddress(root.host, root.port)),
      door_(doorKey(root.key, root.agreement, static_cast<uint32_t>(rank))),
      agreement_(root.agreement),
      rank_(rank),
      patience_(patience),
      line_(loop, *this),
      lostAt_(loop.now()) {}

void Spoke::send(int /*rank*/, const Message& message) {
  if (phase_ != Phase::Closed) line_.send(message);
}

void Spoke::call() {
  phase_ = Phase::Connecting;
  callUntil_ = loop_.now() + kCallNs;
  Fd fd = startConnecting(from_, root_);
  if (!fd.valid()) return lost(std::strerror(errno), errno == ECONNREFUSED);
  calling_ = std::make_unique<Channel>(std::move(fd));
  watch_ = loop_.watch(calling_->fd(), EPOLLOUT, *this);
}

void Spoke::hangUp() {
  if (calling_) loop_.unwatch(watch_, calling_->fd());
  calling_.reset();
  line_.detach();
}

void Spoke::lost(std::string why, bool refused) {
  if (phase_ == Phase::Up) {
    lostAt_ = loop_.now();
    pauseNs_ = 0;
  }
  hangUp();
  why_ = std::move(why);
  refused_ = refused;
  phase_ = Phase::Waiting;
  retryAt_ = loop_.now() + pauseNs_;
  pauseNs_ = std::clamp(pauseNs_ * 2, kFirstPauseNs, kLongestPauseNs);
  // Nothing is left to hear, or nobody to say it to.
  if (up_.ended() && (refused_ || line_.link().allAcknowledged())) phase_ = Phase::Closed;
}

void Spoke::ready(uint32_t events) {
  if (phase_ == Phase::Connecting) {
    const int error = connectResult(calling_->socket());
    return error == 0 ? greet() : lost(std::strerror(error), error == ECONNREFUSED);
  }
  if (phase_ == Phase::Greeting) {
    const bool open = calling_->fill();
    if (calling_->peek(kWelcomeBytes) != nullptr) return onWelcome();
    if (!open) lost(calling_->why(), false);
    return;
  }
  if (phase_ != Phase::Up || line_.onReady(events, [this](const Message& message) { take(message); })) return;
  if (line_.forged()) up_.refused();
  lost(line_.why(), line_.closedByPeer());
}

void Spoke::greet() {
  phase_ = Phase::Greeting;
  hello_ = newHello(agreement_, static_cast<uint32_t>(rank_));
  calling_->write(seal(hello_, door_));
  if (!calling_->flush()) return lost(calling_->why(), false);
  loop_.change(watch_, calling_->fd(), EPOLLIN);
}

void Spoke::onWelcome() {
  const std::optional<Welcome> welcome = readWelcome(calling_->peek(kWelcomeBytes), hello_, door_);
  if (!welcome || !line_.link().acknowledge(welcome->received)) {
    up_.refused();
    return lost("whoever answers there does not know the key", false);
  }
  calling_->take(kWelcomeBytes);
  const SessionKeys keys = sessionKeys(door_, hello_, *welcome);
  calling_->secure(keys.down, keys.up, kMaxDown);
  loop_.unwatch(watch_, calling_->fd());
  Channel channel = std::move(*calling_);
  calling_.reset();
  phase_ = Phase::Up;
  pauseNs_ = 0;
  line_.attach(std::move(channel));
  if (std::exchange(wasUp_, true)) up_.resumed(0);
  if (!line_.drain([this](const Message& message) { take(message); })) lost(line_.why(), line_.closedByPeer());
}

void Spoke::tick(int64_t now) {
  if (phase_ == Phase::Up && !line_.tick(patience_.silenceNs)) lost(line_.why(), line_.closedByPeer());
  if (phase_ == Phase::Up || phase_ == Phase::Closed) return;
  if (phase_ != Phase::Waiting && now >= callUntil_) lost("no answer in time", false);
  if (now - lostAt_ > patience()) {
    hangUp();
    phase_ = Phase::Closed;
    return up_.died(0, why_ + ", and not reached for " + std::to_string((now - lostAt_) / 1000000) + " ms");
  }
  if (phase_ == Phase::Waiting && now >= retryAt_) call();
}

int64_t Spoke::patience() const { return refused_ ? std::min(patience_.closedNs, patience_.holdNs) : patience_.holdNs; }

int64_t Spoke::deadline() const {
  if (phase_ == Phase::Closed) return Loop::kNever;
  if (phase_ == Phase::Waiting) return std::min(retryAt_, lostAt_ + patience() + 1);
  return loop_.now() + std::min(patience_.silenceNs / 6, kLookNs);
}

}  // namespace r2cc::agree
