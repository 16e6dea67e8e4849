// What the kernel and the NICs' drivers say of links.
#include "engine/engine.h"
#include "engine/engine_tags.h"

namespace r2cc {

void Engine::readLinks() {
  const auto changed = [this](unsigned ifindex, bool up) {
    for (size_t n = 0; n < nics_.size(); n++) {
      if (nics_[n].ifindex == ifindex) linkNews(n, kNoCarrier, up, "netlink");
    }
  };
  if (!links_.read(changed)) return;
  info_("R2CC: the kernel had more news of links than it keeps: the state of every NIC was read again");
  for (const LocalNic& nic : nics_) {
    if (nic.ifindex != 0) changed(nic.ifindex, LinkWatch::isUp(nic.ifindex));
  }
}

/// A NIC is up when nothing says that it is down: carrier and driver are heard apart, and in any order.
void Engine::linkNews(size_t nic, uint8_t reason, bool up, const char* cause) {
  downFor_[nic] = static_cast<uint8_t>(up ? downFor_[nic] & ~reason : downFor_[nic] | reason);
  onLink(nic, downFor_[nic] == 0, cause);
}

void Engine::watchNics() {
  for (size_t nic = 0; nic < nics_.size(); nic++) {
    const InnerOps* ops = nics_[nic].inner.ops;
    if (ops == nullptr) continue;
    connector_->prepare(nics_[nic].inner.net, nics_[nic].dev);
    if (ops->openEvents == nullptr) continue;
    const int fd = ops->openEvents(nics_[nic].dev);
    if (fd >= 0) watch(fd, kTagDriver + nic);
  }
}

void Engine::readNicEvents(size_t nic) {
  NicEvent event;
  while (nics_[nic].inner.ops->readEvent(nics_[nic].dev, &event)) {
    // A lost device must be opened again before it is of use, and the fork opens its devices once.
    linkNews(nic, event.fatal ? kDeviceLost : kPortError, event.up, event.cause);
  }
}

}  // namespace r2cc
