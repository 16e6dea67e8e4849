// A link and the connection that it has at the moment, if any. On the loop's thread.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "agree/net/loop.h"
#include "agree/protocol/link.h"

namespace r2cc::agree {

class Line {
 public:
  Line(Loop& loop, Watcher& watcher) : loop_(loop), watcher_(watcher) {}
  ~Line() { detach(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// Takes a connection that is secured, sends what the other end may lack, and answers `ready` events from now on.
  void attach(Channel channel) {
    detach();
    channel_ = std::make_unique<Channel>(std::move(channel));
    heardAt_ = saidAt_ = loop_.now();
    failed_ = writing_ = forged_ = closedByPeer_ = heard_ = false;
    watch_ = loop_.watch(channel_->fd(), EPOLLIN, watcher_);
    channel_->send(link_.ping());  // rank 0 takes nobody who has not sent a first genuine frame
    for (const Frame& frame : link_.unacknowledged()) channel_->send(frame);
    flush();
  }
  void detach() {
    if (!channel_) return;
    loop_.unwatch(watch_, channel_->fd());
    channel_.reset();
  }
  bool attached() const { return channel_ != nullptr; }
  /// A genuine frame came over this connection: more passes than a greeting.
  bool heard() const { return heard_; }
  Link& link() { return link_; }
  const Link& link() const { return link_; }

  void send(Message message) { write(link_.add(std::move(message))); }
  /// What came over the channel, and a ping if it wants to be acknowledged. False: the connection is at its end.
  bool onReady(uint32_t events, const std::function<void(const Message&)>& take) {
    if (!channel_) return true;
    if ((events & EPOLLOUT) != 0) flush();
    const bool open = channel_->fill();
    if (!drain(take)) return false;
    return open ? true : ended(channel_->why());
  }
  /// Only what has been read already.
  bool drain(const std::function<void(const Message&)>& take) {
    bool acknowledge = false;
    while (std::optional<Frame> frame = channel_->next()) {
      heardAt_ = loop_.now();
      heard_ = true;
      const Link::Verdict verdict = link_.receive(*frame);
      if (verdict == Link::Verdict::Gap) return ended("it counts its messages wrongly");
      acknowledge |= frame->seq != 0;
      if (verdict == Link::Verdict::Take) take(frame->message);
    }
    if (channel_->bad()) {
      forged_ = true;
      return ended("what came was not genuine");
    }
    if (acknowledge) write(link_.ping());
    return true;
  }
  /// Says something once in a while. False: nothing was heard for `silenceNs`, or it failed meanwhile.
  bool tick(int64_t silenceNs) {
    if (!channel_) return true;
    if (failed_) return ended(channel_->why());
    const int64_t now = loop_.now();
    if (now - heardAt_ > silenceNs) return ended("silent for " + std::to_string((now - heardAt_) / 1000000) + " ms");
    // A ping that waits for its turn says nothing more than another would.
    if (now - saidAt_ > silenceNs / 3 && !channel_->wantsToWrite()) write(link_.ping());
    return true;
  }

  /// Of the last connection that ended.
  const std::string& why() const { return why_; }
  bool closedByPeer() const { return closedByPeer_; }
  bool forged() const { return forged_; }

 private:
  void write(const Frame& frame) {
    if (!channel_ || failed_) return;
    channel_->send(frame);
    saidAt_ = loop_.now();
    flush();
  }
  void flush() {
    if (!channel_->flush()) {
      failed_ = true;  // what it still has to say may explain it; then, or at the next tick, it is given up
      return;
    }
    if (channel_->wantsToWrite() == writing_) return;
    writing_ = !writing_;
    loop_.change(watch_, channel_->fd(), writing_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  bool ended(const std::string& why) {
    why_ = why;
    closedByPeer_ = channel_->closedByPeer();
    detach();
    return false;
  }

  Loop& loop_;
  Watcher& watcher_;
  Link link_;
  std::unique_ptr<Channel> channel_;  // none: not connected
  uint64_t watch_ = 0;
  int64_t heardAt_ = 0, saidAt_ = 0;
  bool failed_ = false, writing_ = false, heard_ = false;
  std::string why_;
  bool closedByPeer_ = false, forged_ = false;
};

}  // namespace r2cc::agree
