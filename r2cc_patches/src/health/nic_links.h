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
  NicLinks(Shared& shared, Judge& judge, Announcer& announcer, NicReport& report);
  /// For an Epoll: readable when the kernel has news; -1 when it gives none.
  int fd() const { return watch_.fd(); }
  void read();
  /// What the driver of a NIC has to say. Its descriptor is InnerOps::openEvents.
  void readDriver(size_t nic);
  /// As if netlink had said it: tests.
  void report(size_t nic, bool up) { onNews(nic, kNoCarrier, up, "netlink"); }
  /// A change is said at once and on the next ticks.
  void tick(int64_t now);

 private:
  // A NIC's reasons to be down.
  static constexpr uint8_t kNoCarrier = 1, kPortError = 2, kDeviceLost = 4, kAssumedDown = 8;
  void assumeDown(size_t nic);
  void onNews(size_t nic, uint8_t reason, bool up, const char* cause);
  void onLink(size_t nic, bool up, const char* cause);
  void sayTo(const Peer& peer) const;
  Shared& shared_;
  Judge& judge_;
  Announcer& announcer_;
  NicReport& report_;
  LinkWatch watch_;
  std::vector<uint8_t> downFor_;  // by NIC: its reasons to be down
  int saysLeft_ = 0;              // how often the last change is still to be said
};

}  // namespace r2cc
