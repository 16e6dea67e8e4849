// Says in each subnet where our NICs are: where several share one, neighbours may have learned the wrong one's address.
#pragma once

#include <algorithm>
#include <vector>

#include "lanes/lane.h"
#include "nic/bind_nic.h"
#include "paths/shared.h"

namespace r2cc {

class Announcer {
 public:
  explicit Announcer(Shared& shared) : shared_(shared), astray_(shared.nics.size()) {}
  /// Something changed: it is said for some seconds.
  void begin() { until_ = runNs() + kLastsNs; }
  /// A lane could not be kept on its NIC: neighbours are told where that is. `forGood`: that did not help either.
  void onMisplaced(const Lane& lane, bool forGood) {
    const size_t nic = lane.path->local;
    const std::string& name = shared_.nics[nic].name;
    begin();
    const bool filtered = !mayBindDevice(name);
    if (astray_[nic] || !sharesSubnet(nic) || (!forGood && !filtered)) return;
    astray_[nic] = true;
    shared_.warn("R2CC: " + name + " shares a subnet with another NIC, and its traffic cannot be kept on it (" +
                 (filtered ? "net.ipv4.conf.*.rp_filter is 1; 0 or 2 would do"
                           : "by ARP its address is another NIC's, or Linux is older than 5.7; arp_ignore=1 would do") +
                 "): the routing table decides, and a fault of the other NIC stops both");
  }
  void tick(int64_t now) {
    // A new peer may have learned our addresses from the wrong NICs.
    if (now >= std::max(until_, shared_.peers.newestNs() + kLastsNs) || now < next_) return;
    next_ = now + kEveryNs;
    for (size_t i = 0; i < shared_.nics.size(); i++) {
      const LocalNic& nic = shared_.nics[i];
      const bool makesSense = shared_.linkUp(i) && nic.address.family == AF_INET && sharesSubnet(i);
      if (makesSense && mayBindDevice(nic.name)) shared_.side.announce(nic, i);
    }
  }

 private:
  static constexpr int64_t kLastsNs = msToNs(4000);  // how long it is said after a change
  static constexpr int64_t kEveryNs = msToNs(1100);  // neighbours keep what they have learned for a second
  bool sharesSubnet(size_t nic) const {
    const std::vector<LocalNic>& nics = shared_.nics;
    for (size_t i = 0; i < nics.size(); i++) {
      if (i != nic && nics[i].address.family == AF_INET && nics[i].address.sameSubnet(nics[nic].address)) return true;
    }
    return false;
  }
  Shared& shared_;
  std::vector<bool> astray_;  // by NIC: said in NCCL's log
  int64_t until_ = 0, next_ = 0;
};

}  // namespace r2cc
