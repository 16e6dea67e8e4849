// What the kernel counts for one TCP socket. In a file of its own because the kernel's header, which knows the newer
// counters, cannot be included next to the C library's.
#pragma once

#include "inner/inner_net.h"

namespace r2cc {

/// False when the descriptor is no TCP socket, or the kernel does not keep these counters (before 4.10).
bool tcpSample(int fd, LaneSample* out);

/// Several sockets of one comm as one lane. Bytes add up; busy times do not, as the sockets work in parallel: the
/// busiest one's time is at most what passed on the clock, and a lane can never seem slower than it is.
void addSocket(LaneSample& lane, const LaneSample& socket);

}  // namespace r2cc
