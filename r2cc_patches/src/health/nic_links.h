// The links of this host's NICs, as the kernel (netlink) and the NICs' drivers report them.
#pragma once

#include <vector>

#include "health/announcer.h"
#include "health/judge.h"
#include "nic/links.h"

namespace r2cc {

class NicLinks {
 public:
  /// Reads the state of every NIC into Shared::self.
  NicLinks(Shared& shared, Judge& judge, Announcer& announcer, NicReport& report)
      : shared_(shared), judge_(judge), announcer_(announcer), report_(report) {
    uint32_t up = 0;
    for (size_t i = 0; i < shared_.nics.size(); i++) {
      downFor_.push_back(LinkWatch::isUp(shared_.nics[i].name) ? 0 : kNoCarrier);
      if (shared_.nics[i].assumedDown) assumeDown(i);
      up |= downFor_[i] == 0 ? uint32_t{1} << i : 0;
    }
    shared_.self.nicsUp = up;
  }
  /// For an Epoll: readable when the kernel has news; -1 when it gives none.
  int fd() const { return watch_.fd(); }
  void read() {
    const auto changed = [this](unsigned ifindex, bool up) {
      for (size_t n = 0; n < shared_.nics.size(); n++) {
        if (shared_.nics[n].ifindex == ifindex) onNews(n, kNoCarrier, up, "netlink");
      }
    };
    if (!watch_.read(changed)) return;
    shared_.info("R2CC: the kernel had more news of links than it keeps: the state of every NIC was read again");
    for (const LocalNic& nic : shared_.nics) {
      if (nic.ifindex != 0) changed(nic.ifindex, LinkWatch::isUp(nic.ifindex));
    }
  }
  /// What the driver of a NIC has to say. Its descriptor is InnerOps::openEvents.
  void readDriver(size_t nic) {
    const LocalNic& local = shared_.nics[nic];
    NicEvent event;
    while (local.inner.ops->readEvent(local.dev, &event)) {
      // A lost device must be opened again before it is of use, and the fork opens its devices once.
      onNews(nic, event.fatal ? kDeviceLost : kPortError, event.up, event.cause);
    }
  }
  /// As if netlink had said it: tests.
  void report(size_t nic, bool up) { onNews(nic, kNoCarrier, up, "netlink"); }
  /// A change is said at once and on the next ticks.
  void tick(int64_t now) {
    if (saysLeft_ == 0) return;
    saysLeft_--;
    for (const auto& [key, peer] : shared_.peers) sayTo(*peer);
    shared_.agenda.restUntil(now);
  }

 private:
  static constexpr int kSays = 4;  // of each change
  // A NIC's reasons to be down.
  static constexpr uint8_t kNoCarrier = 1, kPortError = 2, kDeviceLost = 4, kAssumedDown = 8;
  /// For good: this reason never goes away.
  void assumeDown(size_t nic) {
    downFor_[nic] |= kAssumedDown;
    const std::string& name = shared_.nics[nic].name;
    shared_.events.line("nic").add("nic", name).add("state", "down").add("cause", "assumed");
    shared_.info("R2CC: " + name + " is taken for failed (R2CC_ASSUME_DOWN)");
  }
  /// A NIC is up when nothing says that it is down: carrier and driver are heard apart, and in any order.
  void onNews(size_t nic, uint8_t reason, bool up, const char* cause) {
    downFor_[nic] = static_cast<uint8_t>(up ? downFor_[nic] & ~reason : downFor_[nic] | reason);
    onLink(nic, downFor_[nic] == 0, cause);
  }
  void onLink(size_t nic, bool up, const char* cause) {
    if (shared_.linkUp(nic) == up) return;
    const uint32_t bit = uint32_t{1} << nic;
    Self& self = shared_.self;
    self.nicsUp = up ? self.nicsUp | bit : self.nicsUp & ~bit;
    self.nicsVersion++;
    report_.changed();
    const std::string& name = shared_.nics[nic].name;
    shared_.events.line("nic").add("nic", name).add("state", up ? "up" : "down").add("cause", cause);
    if (shared_.flight != nullptr) shared_.flight->nic(nic, up, cause);
    shared_.info("R2CC: " + name + (up ? " has its link back" : " lost its link: its connections go on over others"));
    saysLeft_ = kSays;
    announcer_.begin();  // what went to the lost NIC may be meant for another address
    // At once to those who send to us: it is for them to move. Those we send to hear it with the Freeze that moves
    // ours.
    for (const auto& [key, peer] : shared_.peers) {
      if (!peer->weConnect) sayTo(*peer);
    }
    for (const auto& [key, peer] : shared_.peers) judge_.judgePaths(*peer, runNs());
    shared_.peers.flushOutboxes();
  }
  /// Every header carries our links; a ping is the smallest reason to send one.
  void sayTo(const Peer& peer) const {
    for (const Path* path : peer.best(3)) {
      if (shared_.linkUp(path->local)) peer.sendOn(*path, Ping{kNoRound});
    }
  }
  Shared& shared_;
  Judge& judge_;
  Announcer& announcer_;
  NicReport& report_;
  LinkWatch watch_;
  std::vector<uint8_t> downFor_;  // by NIC: its reasons to be down
  int saysLeft_ = 0;              // how often the last change is still to be said
};

}  // namespace r2cc
