// A rank's one connection, to rank 0: made, and made anew whenever it is lost.
#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "agree/net/line.h"
#include "agree/net/transport.h"
#include "base/clock.h"

namespace r2cc::agree {

constexpr int64_t kCallNs = msToNs(3000);  // one attempt
constexpr int64_t kFirstPauseNs = msToNs(10), kLongestPauseNs = msToNs(1000);

class Spoke : public Transport, private Watcher {
 public:
  Spoke(Loop& loop, Upward& up, int rank, const Card& root, const std::string& from, const Patience& patience,
        const Encryption* encryption)
      : loop_(loop),
        up_(up),
        from_(parseAddress(from, 0)),
        root_(addressFor(root.host, root.port, from_)),
        door_(doorKey(root.key, root.agreement, static_cast<uint32_t>(rank))),
        agreement_(root.agreement),
        rank_(rank),
        patience_(patience),
        encryption_(encryption),
        line_(loop, *this),
        lostAt_(loop.now()) {}
  ~Spoke() override { hangUp(); }
  Spoke(const Spoke&) = delete;
  Spoke& operator=(const Spoke&) = delete;

  void send(int /*rank*/, const Message& message) override {
    if (phase_ != Phase::Closed) line_.send(message);
  }
  void tick(int64_t now) override {
    if (phase_ == Phase::Up && !line_.tick(patience_.silenceNs)) lost(line_.why(), line_.closedByPeer());
    if ((phase_ == Phase::Up && proven_) || phase_ == Phase::Closed) return;
    if (phase_ != Phase::Waiting && phase_ != Phase::Up && now >= callUntil_) lost("no answer in time", false);
    if (!unreached_ && now > patientUntil()) {
      unreached_ = true;
      const std::string since = std::to_string((now - lostAt_) / 1000000);
      up_.unreached(0, why_ + ", and not reached for " + since + " ms", refused_);
    }
    if (phase_ == Phase::Waiting && now >= retryAt_) call();
  }
  int64_t deadline() const override {
    if (phase_ == Phase::Closed) return Loop::kNever;
    if (phase_ == Phase::Waiting) return unreached_ ? retryAt_ : std::min(retryAt_, patientUntil() + 1);
    return loop_.now() + std::min(patience_.silenceNs / 6, kLookNs);
  }
  bool able() const override { return phase_ == Phase::Up && line_.link().allAcknowledged(); }
  bool delivered() const override { return phase_ == Phase::Closed || unreached_ || line_.link().allAcknowledged(); }

 private:
  enum class Phase : uint8_t {
    Waiting,     // until retryAt_
    Connecting,  // the kernel is at it
    Greeting,    // said Hello
    Up,
    Closed,  // for good
  };

  void ready(uint32_t events) override {
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
    if (phase_ != Phase::Up) return;
    if (line_.onReady(events, [this](const Message& message) { take(message); })) return prove();
    if (line_.forged()) up_.refused();
    lost(line_.why(), line_.closedByPeer());
  }
  void call() {
    phase_ = Phase::Connecting;
    callUntil_ = loop_.now() + kCallNs;
    Fd fd = startConnecting(from_, root_);
    if (!fd.valid()) return lost(std::strerror(errno), errno == ECONNREFUSED);
    calling_ = std::make_unique<Channel>(std::move(fd));
    watch_ = loop_.watch(calling_->fd(), EPOLLOUT, *this);
  }
  void greet() {
    phase_ = Phase::Greeting;
    hello_ = newHello(agreement_, static_cast<uint32_t>(rank_));
    calling_->write(seal(hello_, door_));
    if (!calling_->flush()) return lost(calling_->why(), false);
    loop_.change(watch_, calling_->fd(), EPOLLIN);
  }
  void onWelcome() {
    const std::optional<Welcome> welcome = readWelcome(calling_->peek(kWelcomeBytes), hello_, door_);
    if (!welcome || !line_.link().acknowledge(welcome->received)) {
      up_.refused();
      return lost("whoever answers there does not know the key", false);
    }
    calling_->take(kWelcomeBytes);
    const SessionKeys keys = sessionKeys(door_, hello_, *welcome, encryption_);
    calling_->secure(keys.down, keys.up, kMaxDown);
    loop_.unwatch(watch_, calling_->fd());
    Channel channel = std::move(*calling_);
    calling_.reset();
    phase_ = Phase::Up;
    refused_ = false;
    line_.attach(std::move(channel));
    if (!line_.drain([this](const Message& message) { take(message); })) {
      return lost(line_.why(), line_.closedByPeer());
    }
    prove();
  }
  /// Some networks let a greeting pass, and nothing after it: that is no connection.
  void prove() {
    if (phase_ != Phase::Up || proven_ || !line_.heard()) return;
    proven_ = true;
    pauseNs_ = 0;
    refused_ = unreached_ = false;
    up_.reached(0, std::exchange(wasUp_, true));
  }
  void hangUp() {
    if (calling_) loop_.unwatch(watch_, calling_->fd());
    calling_.reset();
    line_.detach();
  }
  void lost(std::string why, bool refused) {
    if (std::exchange(proven_, false)) {
      lostAt_ = loop_.now();
      pauseNs_ = 0;
    }
    hangUp();
    why_ = std::move(why);
    if (refused && !refused_) refusedAt_ = loop_.now();
    refused_ = refused;
    phase_ = Phase::Waiting;
    retryAt_ = loop_.now() + pauseNs_;
    pauseNs_ = std::clamp(pauseNs_ * 2, kFirstPauseNs, kLongestPauseNs);
    // Nothing is left to hear, or nobody to say it to.
    if (up_.ended() && (refused_ || line_.link().allAcknowledged())) phase_ = Phase::Closed;
  }  // `why` may be of what this ends
  /// One that answers late may refuse first: that counts from when it refuses.
  int64_t patientUntil() const {
    const int64_t held = lostAt_ + patience_.holdNs;
    return refused_ ? std::min(held, refusedAt_ + patience_.closedNs) : held;
  }
  void take(const Message& message) {
    prove();  // before what it says binds this rank
    up_.received(0, message);
  }

  Loop& loop_;
  Upward& up_;
  const Address from_, root_;
  const Key door_;
  const uint64_t agreement_;
  const int rank_;
  const Patience patience_;
  const Encryption* const encryption_;  // null: frames go in the clear
  Line line_;
  Phase phase_ = Phase::Waiting;
  std::unique_ptr<Channel> calling_;  // while Connecting and Greeting
  uint64_t watch_ = 0;
  Hello hello_;
  int64_t lostAt_, retryAt_ = 0, callUntil_ = 0, pauseNs_ = 0;
  int64_t refusedAt_ = 0;   // the first of those
  bool refused_ = false;    // the last attempts, or the connection that was lost
  bool unreached_ = false;  // and that was said
  bool proven_ = false;     // a frame came over the connection that is Up
  bool wasUp_ = false;
  std::string why_ = "never reached";
};

}  // namespace r2cc::agree
