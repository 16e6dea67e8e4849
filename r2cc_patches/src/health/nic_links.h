// The links and addresses of this host's NICs, as the kernel (netlink) and the NICs' drivers report them.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "health/announcer.h"
#include "health/judge.h"
#include "nic/links.h"

namespace r2cc {

class NicLinks {
 public:
  /// Opens a NIC's sockets at its new address (SideChannel::rebind); false: the kernel does not have that yet.
  using Rebind = std::function<bool(size_t nic)>;
  /// Begins to open a NIC's lost device anew (InnerOps::reopen); `reopened` says how it went.
  using Reopen = std::function<void(size_t nic)>;
  /// Reads the state of every NIC into Shared::self.
  NicLinks(Shared& shared, Judge& judge, Announcer& announcer, NicReport& report, Rebind rebind, Reopen reopen);
  /// For an Epoll: readable when the kernel has news; -1 when it gives none.
  int fd() const { return watch_.fd(); }
  void read();
  /// What the driver of a NIC has to say. Its descriptor is InnerOps::openEvents.
  void readDriver(size_t nic);
  /// The NIC's device is there again, or not yet: then it is tried again.
  void reopened(size_t nic, bool done, const NicEvent& event);
  /// As if netlink had said it: tests.
  void report(size_t nic, bool up) { onNews(nic, kNoCarrier, up, "netlink"); }
  /// As if the kernel had given the NIC this address, none if its family is 0: tests.
  void reportAddress(size_t nic, const NicAddress& address) {
    given_[nic] = address;
    lookAtAddress(nic);
  }
  /// A change is said at once and on the next ticks.
  void tick(int64_t now);

 private:
  static constexpr int kSays = 4;  // of each change
  // A NIC's reasons to be down.
  static constexpr uint8_t kNoCarrier = 1, kPortError = 2, kDeviceLost = 4, kAssumedDown = 8, kNoAddress = 16;
  static uint32_t bit(size_t nic) { return uint32_t{1} << nic; }
  void assumeDown(size_t nic);
  void reopenLost(int64_t now);
  void onNews(size_t nic, uint8_t reason, bool up, const char* cause);
  void onLink(size_t nic, bool up, const char* cause);
  void sayTo(const Peer& peer) const;
  // addresses
  void onKernelLink(unsigned ifindex, bool up);
  NicAddress addressNow(size_t nic) const;
  int innerNow(size_t nic) const;
  bool sameAddress(size_t nic, const NicAddress& now) const;
  void lookAtAddress(size_t nic);
  void resize(size_t nic, uint8_t prefix);
  void move(size_t nic);
  bool renew(size_t nic);
  void sayWhere(int64_t now);

  Shared& shared_;
  Judge& judge_;
  Announcer& announcer_;
  NicReport& report_;
  const Rebind rebind_;
  const Reopen reopen_;
  LinkWatch watch_;
  std::vector<uint8_t> downFor_;  // by NIC: its reasons to be down
  int saysLeft_ = 0;              // how often the last change is still to be said
  // A bit a NIC: it had an address at the start, or may get one; its interface was removed; what was opened at its old
  // address, or on its old interface, must be opened anew; it is down until it has an address; it moved since the
  // start.
  uint32_t addressed_ = 0, removed_ = 0, stale_ = 0, waits_ = 0, moved_ = 0;
  uint32_t lost_ = 0, reopening_ = 0;  // its device is; somebody is opening it just now
  int64_t nextReopen_ = 0, reopenEvery_ = 0;
  std::map<size_t, int64_t> lacksSince_;  // NICs without any address, which may be about to get the same again
  int64_t nextLook_ = 0, nextSay_ = 0, sayAfter_ = 0;
  int saysWhereLeft_ = 0;
  std::map<size_t, NicAddress> given_;  // by tests
};

}  // namespace r2cc
