// A filter in the kernel, before the socket's buffer: a stranger who does not know this process's random id can neither
// fill the buffer nor wake the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"

namespace r2cc {

/// From now on these UDP sockets keep only datagrams of our format that name `process` as their receiver. Sockets of a
/// kernel without such filters keep everything, and the engine refuses what is not ours one by one.
void keepOnlyFor(uint64_t process, const std::vector<Fd>& sockets);

/// How many datagrams the kernel has dropped on these sockets so far: filtered, or the buffer was full.
uint64_t droppedByKernel(const std::vector<Fd>& sockets);

}  // namespace r2cc
