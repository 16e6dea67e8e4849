// Between rank 0 and another rank: every message once and in order, however many connections that takes. Without I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "agree/net/channel.h"

namespace r2cc::agree {

class Link {
 public:
  enum class Verdict : uint8_t { Take, Known, Gap };

  /// The frame that carries it, which is also kept until it is acknowledged.
  Frame add(Message message) {
    kept_.push_back({++added_, received_, std::move(message)});
    return kept_.back();
  }
  /// A frame that only acknowledges.
  Frame ping() const { return {0, received_, {}}; }
  /// What the other end may not have, to be sent again on a new connection.
  std::vector<Frame> unacknowledged() const {
    std::vector<Frame> frames(kept_.begin(), kept_.end());
    for (Frame& frame : frames) frame.ack = received_;
    return frames;
  }

  /// Take: it is the next one. Known: it came before. Gap: one is missing, or it acknowledges what was never sent, and
  /// whoever sends this is broken.
  Verdict receive(const Frame& frame) {
    if (!acknowledge(frame.ack)) return Verdict::Gap;
    if (frame.seq <= received_) return Verdict::Known;  // also a Ping
    if (frame.seq != received_ + 1) return Verdict::Gap;
    received_++;
    return Verdict::Take;
  }
  bool acknowledge(uint64_t ack) {
    if (ack > added_) return false;
    while (!kept_.empty() && kept_.front().seq <= ack) kept_.pop_front();
    return true;
  }

  uint64_t received() const { return received_; }
  size_t waiting() const { return kept_.size(); }
  /// Up to the newest that was added.
  bool allAcknowledged() const { return kept_.empty(); }

 private:
  uint64_t added_ = 0, received_ = 0;
  std::deque<Frame> kept_;
};

}  // namespace r2cc::agree
