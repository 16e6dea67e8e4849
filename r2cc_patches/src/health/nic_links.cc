#include "health/nic_links.h"

#include <net/if.h>

#include <algorithm>
#include <utility>

namespace r2cc {
namespace {

constexpr int64_t kLookAgainNs = msToNs(500);                                // beside the kernel's news of addresses
constexpr int64_t kLacksNs = msToNs(20);                                     // probes would find it silent no sooner
constexpr int64_t kSayWhereNs = msToNs(20), kMostSayWhereNs = msToNs(5000);  // doubled each time: others must know soon
constexpr int64_t kSideHeardNs = msToNs(200);
constexpr int64_t kReopenNs = msToNs(500), kMostReopenNs = msToNs(8000);  // a reset of a device takes seconds

}  // namespace

NicLinks::NicLinks(Shared& shared, Judge& judge, Announcer& announcer, NicReport& report, Rebind rebind, Reopen reopen)
    : shared_(shared),
      judge_(judge),
      announcer_(announcer),
      report_(report),
      rebind_(std::move(rebind)),
      reopen_(std::move(reopen)) {
  if (!watch_.refused().empty()) {
    shared_.warn("R2CC: the kernel gives no news of links here (netlink: " + watch_.refused() +
                 "): a lost link is found by probes, which take longer. Allow netlink sockets in this container");
  }
  uint32_t up = 0;
  for (size_t i = 0; i < shared_.nics.size(); i++) {
    downFor_.push_back(LinkWatch::isUp(shared_.nics[i].name) ? 0 : kNoCarrier);
    if (shared_.nics[i].assumedDown) assumeDown(i);
    if (shared_.nics[i].address.family != 0 || shared_.nics[i].late) addressed_ |= bit(i);
    if (shared_.nics[i].late) downFor_[i] |= kNoAddress, waits_ |= bit(i);
    up |= downFor_[i] == 0 ? bit(i) : 0;
  }
  shared_.self.nicsUp = up;
}

void NicLinks::read() {
  const auto addressed = [this](unsigned ifindex) {
    for (size_t n = 0; n < shared_.nics.size(); n++) {
      if (shared_.nics[n].ifindex != ifindex) continue;
      lookAtAddress(n);
      if ((waits_ & bit(n)) != 0) nextLook_ = 0, shared_.agenda.lookSoon();
    }
  };
  if (!watch_.read([this](unsigned ifindex, bool up) { onKernelLink(ifindex, up); }, addressed)) return;
  shared_.info("R2CC: the kernel had more news of links than it keeps: the state of every NIC was read again");
  for (size_t n = 0; n < shared_.nics.size(); n++) {
    const unsigned ifindex = shared_.nics[n].ifindex;
    if (ifindex == 0) continue;
    onKernelLink(ifindex, LinkWatch::isUp(ifindex));
    lookAtAddress(n);
  }
}

void NicLinks::readDriver(size_t nic) {
  const LocalNic& local = shared_.nics[nic];
  NicEvent event;
  while (local.inner.ops->readEvent(local.dev, &event)) {
    onNews(nic, event.fatal ? kDeviceLost : kPortError, event.up, event.cause);
    if (!event.fatal || local.inner.ops->reopen == nullptr) continue;
    if ((lost_ & bit(nic)) == 0) nextReopen_ = runNs() + (reopenEvery_ = kReopenNs);
    lost_ |= bit(nic);
  }
}

void NicLinks::reopened(size_t nic, bool done, const NicEvent& event) {
  reopening_ &= ~bit(nic);
  if (!done) return;
  lost_ &= ~bit(nic);
  onNews(nic, kPortError, event.up, event.cause);
  onNews(nic, kDeviceLost, true, event.cause);
}

void NicLinks::reopenLost(int64_t now) {
  if (lost_ == 0) return;
  if (now >= nextReopen_) {
    nextReopen_ = now + (reopenEvery_ = std::min(2 * reopenEvery_, kMostReopenNs));
    for (size_t n = 0; n < shared_.nics.size(); n++) {
      if ((lost_ & ~reopening_ & bit(n)) == 0) continue;
      reopening_ |= bit(n);
      reopen_(n);
    }
  }
  shared_.agenda.restUntil(nextReopen_);
}

void NicLinks::tick(int64_t now) {
  if (waits_ != 0 && now >= nextLook_) {
    nextLook_ = now + kLookAgainNs;
    for (size_t n = 0; n < shared_.nics.size(); n++) {
      if ((waits_ & bit(n)) != 0 && renew(n)) onNews(n, kNoAddress, true, "address");
    }
  }
  if (waits_ != 0) shared_.agenda.restUntil(nextLook_);
  for (const auto& [nic, since] : std::map<size_t, int64_t>(lacksSince_)) {
    shared_.agenda.restUntil(since + kLacksNs);
    lookAtAddress(nic);
  }
  reopenLost(now);
  if (moved_ != 0 && now >= nextSay_) sayWhere(now);
  if (saysLeft_ == 0) return;
  saysLeft_--;
  for (const auto& [key, peer] : shared_.peers) sayTo(*peer);
  shared_.agenda.restUntil(now);
}

// ---- links ------------------------------------------------------------------------------------------------------

void NicLinks::onKernelLink(unsigned ifindex, bool up) {
  char name[IF_NAMESIZE];
  const bool exists = if_indextoname(ifindex, name) != nullptr;
  for (size_t n = 0; n < shared_.nics.size(); n++) {
    LocalNic& nic = shared_.nics[n];
    // A driver that was loaded again: the same NIC, under another number.
    if (exists && (removed_ & bit(n)) != 0 && nic.ifindex != ifindex && nic.name == name) {
      nic.ifindex = ifindex;
      removed_ &= ~bit(n);
      stale_ |= bit(n);
      lookAtAddress(n);
    }
    if (nic.ifindex != ifindex) continue;
    if (!exists) removed_ |= bit(n);
    onNews(n, kNoCarrier, up, "netlink");
  }
}

/// For good: this reason never goes away.
void NicLinks::assumeDown(size_t nic) {
  downFor_[nic] |= kAssumedDown;
  const std::string& name = shared_.nics[nic].name;
  shared_.events.line("nic").add("nic", name).add("state", "down").add("cause", "assumed");
  shared_.info("R2CC: " + name + " is taken for failed (R2CC_ASSUME_DOWN)");
}

/// A NIC is up when nothing says that it is down: carrier, address and driver are heard apart, and in any order.
void NicLinks::onNews(size_t nic, uint8_t reason, bool up, const char* cause) {
  downFor_[nic] = static_cast<uint8_t>(up ? downFor_[nic] & ~reason : downFor_[nic] | reason);
  onLink(nic, downFor_[nic] == 0, cause);
}

void NicLinks::onLink(size_t nic, bool up, const char* cause) {
  if (shared_.linkUp(nic) == up) return;
  Self& self = shared_.self;
  self.nicsUp = up ? self.nicsUp | bit(nic) : self.nicsUp & ~bit(nic);
  self.nicsVersion++;
  report_.changed();
  const std::string& name = shared_.nics[nic].name;
  shared_.events.line("nic").add("nic", name).add("state", up ? "up" : "down").add("cause", cause);
  if (shared_.flight != nullptr) shared_.flight->nic(nic, up, cause);
  const std::string what = (downFor_[nic] & kNoAddress) != 0 ? "address" : "link";
  shared_.info("R2CC: " + name +
               (up ? " has its link back" : " lost its " + what + ": its connections go on over others"));
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
void NicLinks::sayTo(const Peer& peer) const {
  for (const Path* path : peer.best(3)) {
    if (shared_.linkUp(path->local)) peer.sendOn(*path, Ping{kNoRound});
  }
}

// ---- addresses --------------------------------------------------------------------------------------------------

NicAddress NicLinks::addressNow(size_t nic) const {
  const auto given = given_.find(nic);
  const LocalNic& local = shared_.nics[nic];
  return given != given_.end() ? given->second : keepAddress(local.name, local.address);
}

int NicLinks::innerNow(size_t nic) const {
  const LocalNic& local = shared_.nics[nic];
  const InnerOps* ops = local.inner.ops;
  return ops == nullptr || ops->readdress == nullptr ? 0 : ops->readdress(local.dev);
}

bool NicLinks::sameAddress(size_t nic, const NicAddress& now) const {
  const NicAddress& had = shared_.nics[nic].address;
  return now.sameHost(had) && now.prefix == had.prefix;
}

/// What was made at an address that is no more carries nothing: the NIC is down until it can be used again. One that
/// has none at all may be about to get the same again, as when its subnet's size changes.
void NicLinks::lookAtAddress(size_t nic) {
  if ((addressed_ & bit(nic)) == 0 || (waits_ & bit(nic)) != 0) return;
  const NicAddress now = addressNow(nic);
  const int inner = innerNow(nic);
  const bool same = now.sameHost(shared_.nics[nic].address) && (stale_ & bit(nic)) == 0 && inner == 0;
  if (same) resize(nic, now.prefix);
  const bool none = now.family == 0 || inner < 0;
  if (!none || same) lacksSince_.erase(nic);
  if (same || (none && runNs() - lacksSince_.emplace(nic, runNs()).first->second < kLacksNs)) return;
  lacksSince_.erase(nic);
  waits_ |= bit(nic);
  nextLook_ = 0;
  onNews(nic, kNoAddress, false, "address");
  shared_.agenda.lookSoon();
}

/// The subnet is another, and with it what lies in it; the sockets do not mind.
void NicLinks::resize(size_t nic, uint8_t prefix) {
  if (std::exchange(shared_.nics[nic].address.prefix, prefix) == prefix) return;
  move(nic);
}

void NicLinks::move(size_t nic) {
  shared_.self.nicsVersion++;  // the other ends go by the newest list
  for (const auto& [key, peer] : shared_.peers) peer->moveLocal(nic);
  moved_ |= bit(nic);
  saysWhereLeft_ = kSays;
  nextSay_ = 0;
  sayAfter_ = kSayWhereNs;
}

/// True: it has an address, and that is in use from now on. The other ends are told, as they cannot know.
bool NicLinks::renew(size_t nic) {
  const NicAddress now = addressNow(nic);
  if (innerNow(nic) < 0 || now.family == 0) return false;
  if (!sameAddress(nic, now) || (stale_ & bit(nic)) != 0) {
    shared_.peers.flushOutboxes();  // what waits there names the old one
    NicAddress& address = shared_.nics[nic].address;
    const NicAddress old = address;
    address.family = now.family, address.prefix = now.prefix, address.ip = now.ip;
    if (!rebind_(nic)) return address = old, false;
    shared_.info("R2CC: " + shared_.nics[nic].name + " has another address: it is used from now on");
    stale_ &= ~bit(nic);
    move(nic);
  }
  waits_ &= ~bit(nic);
  return true;
}

/// Until every path over such a NIC is up: a path is only up where the other end knows the address that it answers to.
void NicLinks::sayWhere(int64_t now) {
  nextSay_ = now + sayAfter_;
  sayAfter_ = std::min(2 * sayAfter_, kMostSayWhereNs);
  const bool anyway = saysWhereLeft_ > 0;
  saysWhereLeft_ -= anyway ? 1 : 0;
  for (const auto& [key, peer] : shared_.peers) {
    bool all = !anyway;
    for (const auto& path : peer->paths()) {
      const bool over = (moved_ & bit(path->local)) != 0 && shared_.linkUp(path->local);
      all &= !over || (path->use == PathUse::SideOnly ? now - path->lastHeard < kSideHeardNs : path->up());
    }
    if (!all) peer->tellEverywhere(Addresses{shared_.addresses()});
  }
}

}  // namespace r2cc
