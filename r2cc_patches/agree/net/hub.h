// Rank 0's end of the star: a door that only ranks of this communicator pass, and a line to each of them.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "agree/net/line.h"
#include "agree/net/transport.h"

namespace r2cc::agree {

class Hub : public Transport, private Watcher {
 public:
  Hub(Loop& loop, Upward& up, Fd listener, const std::vector<Card>& cards, const Patience& patience,
      const Encryption* encryption);
  ~Hub() override;
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  void send(int rank, const Message& message) override;
  void tick(int64_t now) override;
  int64_t deadline() const override;
  bool able() const override;
  bool delivered() const override;

 private:
  /// Another rank.
  struct Peer : Watcher {
    Peer(Hub& hub, int rank) : hub(hub), rank(rank), line(hub.loop_, *this), lostAt(hub.loop_.now()) {}
    void ready(uint32_t events) override { hub.onPeer(*this, events); }
    Hub& hub;
    const int rank;
    Line line;
    int64_t lostAt;
    bool wasUp = false;
    bool left = false;
    bool closed = false, unreached = false;  // and that was said
  };
  /// Somebody who connected and has not shown yet that he may.
  struct Caller : Watcher {
    Caller(Hub& hub, Fd fd, int64_t until) : hub(hub), channel(std::move(fd)), until(until) {}
    void ready(uint32_t /*events*/) override { hub.onCaller(*this); }
    Hub& hub;
    Channel channel;
    const int64_t until;
    uint64_t watch = 0;
    int rank = -1;  // once the Hello was genuine
  };

  void ready(uint32_t events) override;  // the listener
  bool crowded() const;
  void rest();
  void onPeer(Peer& peer, uint32_t events);
  void onCaller(Caller& caller);
  bool greet(Caller& caller);
  void admit(Caller& caller);
  void turnAway(Caller& caller);
  void giveUp(Caller& caller);
  void forget(Caller& caller);
  void lost(Peer& peer);
  void take(Peer& peer, const Message& message);
  Peer& peer(int rank) const { return *peers_[static_cast<size_t>(rank) - 1]; }

  Loop& loop_;
  Upward& up_;
  const Fd listener_;
  const Key key_;
  const uint64_t agreement_;
  const Patience patience_;
  const Encryption* const encryption_;  // null: frames go in the clear
  uint64_t watch_;
  bool listening_ = true, crowded_ = false;
  int64_t listenAgainAt_ = 0, lookedAt_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;  // rank 1 first
  std::list<std::unique_ptr<Caller>> callers_;
};

}  // namespace r2cc::agree
