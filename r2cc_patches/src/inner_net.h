// What R2CC needs of a transport beyond ncclNet_v11_t. Each fork's transport gets these from a thin patch.
#pragma once

#include "nccl_net.h"

namespace r2cc {

/// Private operations of an inner transport. None of them waits for the peer.
struct InnerOps {
  /// Makes any later read or write of user memory by this comm impossible: returns once helper threads are gone and
  /// the sockets or queue pairs are dead. Requests of the comm must not be tested afterwards; the comm is still closed
  /// with closeSend or closeRecv.
  void (*fence)(void* comm);
  /// Frees what a connect() that never returned a comm has made so far; `handle` is the one given to connect().
  void (*cancelConnect)(void* handle);
  /// Frees what an accept() that never returned a comm has made so far, and closes the listen comm.
  void (*cancelListen)(void* listenComm);
  /// True when a completed isend only means "in a kernel buffer": the send is done when the receiver says so.
  bool needsAck;
};

struct InnerNet {
  const ncclNet_t* net;
  const InnerOps* ops;
};

/// Operations for one of the fork's own nets, or null: such a net is passed through unwrapped.
const InnerOps* innerOps(const ncclNet_t* net);

}  // namespace r2cc
