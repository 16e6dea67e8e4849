// What a lane's TCP sockets are asked for: a failover waits for their first message.
#pragma once

namespace r2cc {

/// A lost last segment is sent again after some 10 ms instead of 200, and acknowledgements are held back no longer than
/// that (kernels without these options, as before 6.15, ignore them). The receive window may grow to what NCCL has on
/// its way with the first packets: the usual limit of 64 KiB, less than one message, is lifted only in the ms in which
/// a failover should be over. No effect on what is no TCP socket.
void tcpTune(int fd);

}  // namespace r2cc
