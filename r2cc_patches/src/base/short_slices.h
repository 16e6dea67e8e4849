// For threads that work for microseconds, then sleep, and are waited for meanwhile.
#pragma once

namespace r2cc {

/// Asks for a short time slice, so that the calling thread runs soon after it is woken even beside busy progress
/// threads (Linux 6.12 and later, no privilege needed; older kernels ignore it).
void askForShortSlices();

}  // namespace r2cc
