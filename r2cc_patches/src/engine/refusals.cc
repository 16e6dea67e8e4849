#include "engine/refusals.h"

#include <algorithm>

#include "wire/refusal.h"

namespace r2cc {
namespace {

// A few may be lost. NCCL's error is not far behind, and with it the end of the process.
constexpr int64_t kTellNs = msToNs(300), kAgainNs = msToNs(20);

/// The first NIC is the inner net's own: special ones come behind.
Inner innerOfAll(const Shared& shared) {
  const bool known = !shared.nics.empty() && shared.nics.front().inner.net != nullptr;
  return known ? innerOf(shared.nics.front().inner.net->name) : Inner::Unknown;
}

}  // namespace

Refusals::Refusals(Shared& shared, int mode)
    : shared_(shared), here_(ownParty(mode, innerOfAll(shared), shared.self.encryption.get())) {}

ncclResult_t Refusals::check(const ConnectHandle& to, uint8_t version) {
  const Party there = partyOf(to, version);
  const std::string why = conflict(here_, there);
  if (why.empty()) {
    const std::string differs = saidDifference_ ? "" : difference(here_, there);
    if (!differs.empty()) shared_.warn("R2CC: " + differs);
    saidDifference_ |= !differs.empty();
    return ncclSuccess;
  }
  if (!std::exchange(saidWhy_, true)) shared_.warn("R2CC: the ranks cannot work with each other: " + why);
  const int64_t now = nowNs();
  Told& told = told_[{to.process, to.listen}];
  if (told.since == 0) told.since = told.next = now;
  if (now - told.since >= kTellNs) return ncclInvalidUsage;
  if (now >= told.next) {
    tell(to, why);
    told.next = now + kAgainNs;
  }
  return ncclInProgress;
}

/// Over every NIC: which of them reaches it is not known yet.
void Refusals::tell(const ConnectHandle& to, const std::string& why) const {
  const std::vector<uint8_t> bytes = Refusal::sealed(to, shared_.self.id, why);
  for (const NicAddress& address : to.nics) {
    for (size_t nic = 0; nic < shared_.nics.size(); nic++) {
      if (shared_.nics[nic].address.family == address.family) (void)shared_.side.send(nic, address, bytes, false);
    }
  }
}

void Refusals::heard(const std::string& why) {
  if (!std::exchange(saidHeard_, true)) shared_.warn("R2CC: the ranks cannot work with each other: " + why);
}

}  // namespace r2cc
