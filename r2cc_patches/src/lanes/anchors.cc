#include "lanes/anchors.h"

#include <memory>

#include "base/siphash.h"

namespace r2cc {

void Anchors::make(const std::vector<LocalNic>& nics, void* ctx, Connector& connector) {
  if (began_) return;
  began_ = true;
  for (const LocalNic& nic : nics) {
    if (nic.inner.net == nullptr || nic.inner.ops->needsAck) continue;
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

bool Anchors::onMade(const LanePtr& lane, bool ok) {
  if (lane->state != LaneState::Connecting || !ok) return false;
  lane->state = LaneState::Up;
  if (!lane->sends) return false;
  ready_.push_back(lane);
  return true;
}

void Anchors::close(Connector& connector) {
  for (const LanePtr& lane : all_) connector.close(lane);
  all_.clear();
  ready_.clear();
}

}  // namespace r2cc
