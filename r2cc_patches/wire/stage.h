// One direction of one port: what the wire does to frames on their way, and those that wait.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace r2cc::wire {

using Bytes = std::vector<uint8_t>;
using Frame = std::shared_ptr<const Bytes>;  // shared: a broadcast waits in several queues

struct Impairment {
  bool drop = false;            // black hole: everything is lost, silently
  bool cut = false;             // so is it where the cable is out, which is no fault of the wire's
  double loss = 0;              // probability, each frame on its own
  uint64_t rateBps = 0;         // 0: as fast as it goes
  uint32_t burst = 128 * 1024;  // bytes that may go at once at that rate
  bool tcp = false;             // every TCP packet is lost
  bool udp = false;             // every UDP packet is lost
  uint32_t above = 0;           // IP packets of more bytes are lost; 0: none
};

struct Counters {
  uint64_t frames = 0;   // passed on
  uint64_t bytes = 0;    // passed on
  uint64_t dropped = 0;  // by impairment
  uint64_t overrun = 0;  // no room in the queue
};

// A token bucket before a queue. Never blocks: the caller asks when the next frame may go.
class Stage {
 public:
  Stage(uint64_t limitBytes, uint64_t seed) : limitBytes_(limitBytes), random_(seed) {}

  void impair(const Impairment& impairment, uint64_t nowNs);
  const Impairment& impairment() const { return impairment_; }
  const Counters& counters() const { return counters_; }
  uint64_t limitBytes() const { return limitBytes_; }

  // Takes a frame, or loses it. False only when it was lost for want of room.
  bool push(Frame frame);
  bool full() const { return queuedBytes_ >= limitBytes_; }
  bool empty() const { return queue_.empty(); }

  // The oldest frame if it may go now, else null.
  Frame front(uint64_t nowNs);
  void pop();  // the frame that front() returned has gone

  // When front() will be worth asking again; 0 when that does not depend on time.
  uint64_t readyAtNs() const { return queue_.empty() ? 0 : readyAtNs_; }

 private:
  void refill(uint64_t nowNs);

  uint64_t limitBytes_;
  Impairment impairment_;
  Counters counters_;
  std::deque<Frame> queue_;
  uint64_t queuedBytes_ = 0;
  double tokens_ = 0;  // bytes that may go at once
  uint64_t refilledNs_ = 0;
  uint64_t readyAtNs_ = 0;
  std::mt19937_64 random_;
};

}  // namespace r2cc::wire
