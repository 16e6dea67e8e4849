// A link and the connection that it has at the moment, if any. On the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "link.h"
#include "loop.h"

namespace r2cc::agree {

class Line {
 public:
  Line(Loop& loop, Watcher& watcher) : loop_(loop), watcher_(watcher) {}
  ~Line() { detach(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// Takes a connection that is secured, sends what the other end may lack, and answers `ready` events from now on.
  void attach(Channel channel);
  void detach();
  bool attached() const { return channel_ != nullptr; }
  Link& link() { return link_; }
  const Link& link() const { return link_; }

  void send(Message message);
  /// What came over the channel, and a ping if it wants to be acknowledged. False: the connection is at its end.
  bool onReady(uint32_t events, const std::function<void(const Message&)>& take);
  /// Only what has been read already.
  bool drain(const std::function<void(const Message&)>& take);
  /// Says something once in a while. False: nothing was heard for `silenceNs`, or it failed meanwhile.
  bool tick(int64_t silenceNs);

  /// Of the last connection that ended.
  const std::string& why() const { return why_; }
  bool closedByPeer() const { return closedByPeer_; }
  bool forged() const { return forged_; }

 private:
  void write(const Frame& frame);
  void flush();
  bool ended(const std::string& why);

  Loop& loop_;
  Watcher& watcher_;
  Link link_;
  std::unique_ptr<Channel> channel_;  // none: not connected
  uint64_t watch_ = 0;
  int64_t heardAt_ = 0, saidAt_ = 0;
  bool failed_ = false, writing_ = false;
  std::string why_;
  bool closedByPeer_ = false, forged_ = false;
};

}  // namespace r2cc::agree
