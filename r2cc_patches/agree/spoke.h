// A rank's one connection, to rank 0: made, and made anew for as long as there is hope.
#pragma once

#include <memory>
#include <string>

#include "line.h"
#include "transport.h"

namespace r2cc::agree {

class Spoke : public Transport, private Watcher {
 public:
  Spoke(Loop& loop, Upward& up, int rank, const Card& root, const std::string& from, const Patience& patience);
  ~Spoke() override { hangUp(); }
  Spoke(const Spoke&) = delete;
  Spoke& operator=(const Spoke&) = delete;

  void send(int rank, const Message& message) override;
  void tick(int64_t now) override;
  int64_t deadline() const override;
  bool able() const override { return phase_ == Phase::Up && line_.link().allAcknowledged(); }
  bool delivered() const override { return phase_ == Phase::Closed || line_.link().allAcknowledged(); }

 private:
  enum class Phase : uint8_t {
    Waiting,     // until retryAt_
    Connecting,  // the kernel is at it
    Greeting,    // said Hello
    Up,
    Closed,  // for good
  };

  void ready(uint32_t events) override;
  void call();
  void greet();
  void onWelcome();
  void hangUp();
  void lost(std::string why, bool refused);  // `why` may be of what this ends
  int64_t patience() const;
  void take(const Message& message) { up_.received(0, message); }

  Loop& loop_;
  Upward& up_;
  const Address from_, root_;
  const Key door_;
  const uint64_t agreement_;
  const int rank_;
  const Patience patience_;
  Line line_;
  Phase phase_ = Phase::Waiting;
  std::unique_ptr<Channel> calling_;  // while Connecting and Greeting
  uint64_t watch_ = 0;
  Hello hello_;
  int64_t lostAt_, retryAt_ = 0, callUntil_ = 0, pauseNs_ = 0;
  bool refused_ = false;  // the last attempt, or the connection that was lost
  bool wasUp_ = false;
  std::string why_ = "never reached";
};

}  // namespace r2cc::agree
