// Between rank 0 and another rank: every message once and in order, however many connections that takes. Without I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "channel.h"

namespace r2cc::agree {

class Link {
 public:
  enum class Verdict : uint8_t { Take, Known, Gap };

  /// The frame that carries it, which is also kept until it is acknowledged.
  Frame add(Message message);
  /// A frame that only acknowledges.
  Frame ping() const { return {0, received_, {}}; }
  /// What the other end may not have, to be sent again on a new connection.
  std::vector<Frame> unacknowledged() const;

  /// Take: it is the next one. Known: it came before. Gap: one is missing, or it acknowledges what was never sent, and
  /// whoever sends this is broken.
  Verdict receive(const Frame& frame);
  bool acknowledge(uint64_t ack);

  uint64_t received() const { return received_; }
  size_t waiting() const { return kept_.size(); }
  /// Up to the newest that was added.
  bool allAcknowledged() const { return kept_.empty(); }

 private:
  uint64_t added_ = 0, received_ = 0;
  std::deque<Frame> kept_;
};

}  // namespace r2cc::agree
