// How soon TCP notices a lost segment on a lane.
#pragma once

namespace r2cc {

/// A lost last segment is sent again after some 10 ms instead of 200, and acknowledgements are held back no longer than
/// that. No effect on kernels that have no such options (6.18 has), and on what is no TCP socket.
void tcpRecoverSoon(int fd);

}  // namespace r2cc
