#include "health/announcer.h"

#include <algorithm>

#include "nic/bind_nic.h"

namespace r2cc {
namespace {

constexpr int64_t kLastsNs = msToNs(4000);  // how long it is said after a change
constexpr int64_t kEveryNs = msToNs(1100);  // neighbours keep what they have learned for a second

}  // namespace

void Announcer::begin() { until_ = runNs() + kLastsNs; }

bool Announcer::sharesSubnet(size_t nic) const {
  const std::vector<LocalNic>& nics = shared_.nics;
  for (size_t i = 0; i < nics.size(); i++) {
    if (i != nic && nics[i].address.family == AF_INET && nics[i].address.sameSubnet(nics[nic].address)) return true;
  }
  return false;
}

void Announcer::onMisplaced(const Lane& lane, bool forGood) {
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

void Announcer::tick(int64_t now) {
  // A new peer may have learned our addresses from the wrong NICs.
  if (now >= std::max(until_, shared_.peers.newestNs() + kLastsNs) || now < next_) return;
  next_ = now + kEveryNs;
  for (size_t i = 0; i < shared_.nics.size(); i++) {
    const LocalNic& nic = shared_.nics[i];
    const bool makesSense = shared_.linkUp(i) && nic.address.family == AF_INET && sharesSubnet(i);
    if (makesSense && mayBindDevice(nic.name)) shared_.side.announce(nic, i);
  }
}

}  // namespace r2cc
