// One comm per NIC, from the NIC to itself, that carries nothing: every buffer is registered on it at once. A lane that
// is made later finds the registration in the transport's cache, so that a failover never waits for one, and a NIC that
// has no lane just now keeps its protection domain (the fork's net_ib counts its users).
//
// Only for transports whose registrations cost something: RDMA.
#pragma once

#include <vector>

#include "lanes/connector.h"
#include "lanes/lane.h"
#include "wire/side_channel.h"

namespace r2cc {

class Anchors {
 public:
  /// Begins to make them, once; later calls do nothing. `ctx` is a communicator's.
  void make(const std::vector<LocalNic>& nics, void* ctx, Connector& connector);
  /// One of ours was made, or could not be: then that NIC has none. True when buffers can now be registered on it.
  bool onMade(const LanePtr& lane, bool ok);
  /// Those that are ready. Under the engine's mutex.
  const std::vector<LanePtr>& ready() const { return ready_; }
  /// Nothing is registered on them any more.
  void close(Connector& connector);

 private:
  bool began_ = false;
  std::vector<LanePtr> all_, ready_;
};

}  // namespace r2cc
