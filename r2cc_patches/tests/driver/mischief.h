// What the driver does to itself: a child that exits, half of a message's header on a lane.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "bench/json.h"

namespace r2cc::driver {

// A forked child that waits, then calls exit(0): what a helper of any Python program does.
class Child {
 public:
  explicit Child(const bench::LineWriter& out) : out_(out) {}

  bool started() const { return pid_ > 0; }
  bool running() const { return started() && !ended_; }
  void start(uint64_t lingerMs);
  // Prints how it ended, once.
  void look();

 private:
  const bench::LineWriter& out_;
  pid_t pid_ = -1;
  uint64_t startNs_ = 0;
  bool ended_ = false;
};

// Writes the first 2 of 4 bytes of a header for a message of `bytes` to the TCP connection that has carried most.
// Throws TransportError when there is none.
void sendHalfHeader(uint32_t bytes);

}  // namespace r2cc::driver
