// How many files the process may have open.
#pragma once

namespace r2cc {

/// The soft limit up to the hard one, or to what even a very large job needs. Lanes in reserve and the side channel
/// take several times as many descriptors as stock's connections, and a job that stock runs within the usual 1024 must
/// not fail for that. NCCL itself does the same in one process of a job.
void raiseFileLimit();

}  // namespace r2cc
