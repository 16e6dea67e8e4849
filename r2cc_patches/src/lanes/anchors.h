// One comm per NIC, from the NIC to itself, that carries nothing: every buffer is registered on it at once. A lane that
// is made later finds the registration in the transport's cache, so that a failover never waits for one, and a NIC that
// has no lane just now keeps its protection domain (the fork's net_ib counts its users).
//
// Only for transports whose registrations cost something: RDMA.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "base/siphash.h"
#include "lanes/connector.h"
#include "lanes/lane.h"
#include "wire/side_channel.h"

namespace r2cc {

class Anchors {
 public:
  /// Begins to make those that are not there, each once. `ctx` is a communicator's.
  void make(const std::vector<LocalNic>& nics, void* ctx, Connector& connector) {
    for (const LocalNic& nic : nics) {
      if (nic.inner.net == nullptr || nic.inner.ops->needsAck || !began_.insert(nic.dev).second) continue;
      void* own = nic.ctx != nullptr ? nic.ctx : ctx;
      const auto receives = std::make_shared<Lane>(nullptr, 1, /*sends=*/false, nullptr, nic.dev, nic.inner, own);
      if (nic.inner.net->listen(own, nic.dev, receives->handle.data(), &receives->listenComm) != ncclSuccess) continue;
      const InnerOps& ops = *nic.inner.ops;
      const uint64_t secret = randomId();  // it never leaves this process
      if (ops.lockListen != nullptr) ops.lockListen(receives->listenComm, receives->handle.data(), secret);
      const auto sends = std::make_shared<Lane>(nullptr, 1, /*sends=*/true, nullptr, nic.dev, nic.inner, own);
      sends->handle = receives->handle;
      if (ops.unlockHandle != nullptr && !ops.unlockHandle(sends->handle.data(), secret)) {
        connector.close(receives);
        continue;
      }
      for (const LanePtr& lane : {receives, sends}) {
        all_.push_back(lane);
        connector.make(lane);
      }
    }
  }
  /// One of ours was made, or could not be: then that NIC has none. True when buffers can now be registered on it.
  bool onMade(const LanePtr& lane, bool ok) {
    if (lane->state != LaneState::Connecting || !ok) return false;
    lane->state = LaneState::Up;
    if (!lane->sends) return false;
    ready_.push_back(lane);
    return true;
  }
  /// Those that are ready. Under the engine's mutex.
  const std::vector<LanePtr>& ready() const { return ready_; }
  /// The device was lost, and is another from now on: its anchors are closed, and made anew with the next
  /// communicator. `leave(lane)` takes all that is registered off each first.
  template <class Leave>
  void renew(int dev, Connector& connector, const Leave& leave) {
    const auto lost = [&](const LanePtr& lane) { return lane->dev == dev && lane->inner.ops->reopen != nullptr; };
    ready_.erase(std::remove_if(ready_.begin(), ready_.end(), lost), ready_.end());
    const auto kept = std::stable_partition(all_.begin(), all_.end(), [&](const LanePtr& l) { return !lost(l); });
    for (auto lane = kept; lane != all_.end(); ++lane) {
      leave(*lane);
      connector.close(*lane);
    }
    all_.erase(kept, all_.end());
    began_.erase(dev);
  }
  /// Nothing is registered on them any more.
  void close(Connector& connector) {
    for (const LanePtr& lane : all_) connector.close(lane);
    all_.clear();
    ready_.clear();
  }

 private:
  std::set<int> began_;  // by device
  std::vector<LanePtr> all_, ready_;
};

}  // namespace r2cc
