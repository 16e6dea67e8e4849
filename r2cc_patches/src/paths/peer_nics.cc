// Which pairs of NICs can talk, as the two lists of them say, and which of these fail with each other.
#include <algorithm>
#include <utility>

#include "nic/bind_nic.h"
#include "paths/peer.h"

namespace r2cc {
namespace {

PathUse useOf(uint8_t flags, uint8_t remoteFlags) {
  const bool lastResort = (flags & remoteFlags & kLastResort) != 0;
  return (flags | remoteFlags) == 0 ? PathUse::Data : lastResort ? PathUse::LastResort : PathUse::SideOnly;
}

}  // namespace

std::vector<Path*> Peer::setRemote(const std::vector<NicAddress>& nics, uint32_t version) {
  const bool newer = version != 0 && version >= addressesVersion_;
  if (newer) addressesVersion_ = version;
  std::vector<Path*> moved;
  for (const NicAddress& nic : nics) {
    // Bits are shifted by `dev` and arrays indexed by a path's ends: a broken peer cannot make either too large.
    const bool sane = (nic.family == AF_INET || nic.family == AF_INET6) && nic.dev < kMaxNics;
    if (!sane || moveRemote(nic, newer, moved) || remote_.size() == kMaxNics) continue;
    const std::lock_guard<std::mutex> lock(remoteMutex_);
    remote_.push_back(nic);
  }
  addPaths();
  return moved;
}

/// True: that NIC is known, and where it is now, as far as the list is newer.
bool Peer::moveRemote(const NicAddress& nic, bool newer, std::vector<Path*>& moved) {
  const auto known =
      std::find_if(remote_.begin(), remote_.end(), [&](const NicAddress& old) { return old.dev == nic.dev; });
  if (known == remote_.end()) return false;
  if (!newer || (known->sameSocket(nic) && known->prefix == nic.prefix)) return true;
  const bool elsewhere = !known->sameSocket(nic);
  {
    const std::lock_guard<std::mutex> lock(remoteMutex_);
    *known = nic;
  }
  triedRouter_ = false;
  const auto index = static_cast<size_t>(known - remote_.begin());
  for (const auto& path : paths_) {
    if (path->remote != index) continue;
    place(*path);
    if (elsewhere) moved.push_back(path.get());
  }
  return true;
}

void Peer::moveLocal(size_t nic) {
  for (const auto& path : paths_) {
    if (path->local == nic) place(*path);
  }
  triedRouter_ = false;
  addPaths();
}

void Peer::addPaths() {
  const auto shared = [&](const NicAddress& nic) {
    return std::any_of(local_.begin(), local_.end(), [&](const LocalNic& l) { return l.address.sameSubnet(nic); });
  };
  // On our own host what goes to an address takes that address's own way, and no NIC's.
  const auto here = [&](const NicAddress& nic) {
    return std::any_of(local_.begin(), local_.end(), [&](const LocalNic& l) { return l.address.sameHost(nic); });
  };
  for (size_t l = 0; l < local_.size(); l++) {
    if (local_[l].address.family == 0) continue;
    for (size_t r = 0; r < remote_.size(); r++) {
      if (has(l, r)) continue;
      const bool fits = here(remote_[r])     ? local_[l].address.sameHost(remote_[r])
                        : shared(remote_[r]) ? local_[l].address.sameSubnet(remote_[r])
                                             : local_[l].address.family == remote_[r].family;
      if (fits) addPath(l, r);
    }
  }
}

/// Where data moves already, a path that joins has to show first that it works.
Path& Peer::addPath(size_t local, size_t remote) {
  const PathUse use = useOf(local_[local].address.flags, remote_[remote].flags);
  auto path = std::make_unique<Path>(static_cast<uint8_t>(local), static_cast<uint8_t>(remote), use, probation_);
  place(*path);
  if (connections > 0 && use != PathUse::SideOnly) (void)path->linkLost(runNs(), false);
  plansVersion++;
  const std::lock_guard<std::mutex> lock(remoteMutex_);
  paths_.push_back(std::move(path));
  return *paths_.back();
}

bool Peer::has(size_t local, size_t remote) const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [&](const auto& path) { return path->local == local && path->remote == remote; });
}

/// Whether a router may join them.
bool Peer::mayMeet(size_t local, size_t remote) const {
  const NicAddress& nic = local_[local].address;
  const NicAddress& other = remote_[remote];
  return nic.family == other.family && useOf(nic.flags, other.flags) == PathUse::Data && !nic.sameHost(other) &&
         !has(local, remote);
}

void Peer::addByRouter() {
  if (std::exchange(triedRouter_, true)) return;
  for (size_t l = 0; l < local_.size(); l++) {
    for (size_t r = 0; r < remote_.size(); r++) {
      if (!mayMeet(l, r)) continue;
      const LocalNic& nic = local_[l];
      if (!leadsThere(nic.name, nic.address.sockaddr(), remote_[r].sockaddr())) continue;
      Path& path = addPath(l, r);
      path.byRouter = true;
    }
  }
}

Path* Peer::meet(size_t localNic, const NicAddress& from) {
  for (size_t r = 0; r < remote_.size(); r++) {
    if (!remote_[r].sameSocket(from) || !mayMeet(localNic, r)) continue;
    Path& path = addPath(localNic, r);
    path.byRouter = true;
    return &path;
  }
  return nullptr;
}

std::vector<const Path*> Peer::sideOnly() const {
  std::vector<const Path*> out;
  const std::lock_guard<std::mutex> lock(remoteMutex_);
  for (const auto& path : paths_) {
    if (!path->data) out.push_back(path.get());
  }
  return out;
}

void Peer::place(Path& path) const {
  const LocalNic& nic = local_[path.local];
  path.within = nic.address.sameHost(remote_[path.remote]);
  path.pinned = !path.within && leadsThere(nic.name, nic.address.sockaddr(), remote_[path.remote].sockaddr());
}

Path* Peer::route(uint8_t localDev, uint8_t remoteDev) const {
  Path* other = nullptr;
  for (const auto& path : paths_) {
    if (!path->data || path->byRouter || remote_[path->remote].dev != remoteDev) continue;
    if (path->local == localDev) return path.get();
    if (other == nullptr) other = path.get();
  }
  return other;
}

Path* Peer::anyRoute(uint8_t localDev) const {
  Path* other = nullptr;
  for (const auto& path : paths_) {
    if (!path->data) continue;
    if (path->local == localDev) return path.get();
    if (other == nullptr) other = path.get();
  }
  return other;
}

Path* Peer::pathOf(uint8_t local, uint8_t remoteDev) const {
  for (const auto& path : paths_) {
    if (path->local == local && remote_[path->remote].dev == remoteDev) return path.get();
  }
  return route(local, remoteDev);
}

bool Peer::apart(const Path& a, const Path& b) const {
  return local_[a.local].address.domain != local_[b.local].address.domain &&
         remote_[a.remote].domain != remote_[b.remote].domain;
}

bool Peer::kin(const Path& a, const Path& b) const {
  const bool here = a.local != b.local && local_[a.local].address.domain == local_[b.local].address.domain;
  const bool there = a.remote != b.remote && remote_[a.remote].domain == remote_[b.remote].domain;
  return here || there;
}

bool Peer::hasApart(const Path& from) const {
  const int64_t now = runNs();
  return std::any_of(paths_.begin(), paths_.end(), [&](const auto& path) {
    return path->data && path->carriesData() && !path->doubted() && !path->mute(now) && apart(*path, from);
  });
}

bool Peer::counts(const Path& path) const {
  if (!path.byRouter || path.heard()) return true;
  return std::none_of(paths_.begin(), paths_.end(),
                      [](const auto& other) { return other->data && !other->byRouter && other->up(); });
}

}  // namespace r2cc
