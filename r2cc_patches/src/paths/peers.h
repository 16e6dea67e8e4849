// Every process that we have connections with, or had lately. A pair of processes that connect to each other both ways
// has two Peers here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "paths/peer.h"

namespace r2cc {

class Peers {
 public:
  using Map = std::map<std::pair<uint64_t, bool>, std::unique_ptr<Peer>>;
  Peers(const Self& self, const SideChannel& side, const std::vector<LocalNic>& nics, const Probation& probation)
      : self_(self), side_(side), nics_(nics), probation_(probation) {}

  /// Null: none such is known. `weConnect`: see Peer.
  Peer* find(uint64_t process, bool weConnect) const {
    const auto it = all_.find({process, weConnect});
    return it == all_.end() ? nullptr : it->second.get();
  }
  /// One that find() does not know.
  Peer& add(uint64_t process, bool weConnect, PairKey key) {
    newestNs_ = runNs();
    return *(all_[{process, weConnect}] =
                 std::make_unique<Peer>(process, weConnect, std::move(key), self_, side_, nics_, probation_));
  }
  Map::const_iterator erase(Map::const_iterator it) { return all_.erase(it); }
  Map::const_iterator begin() const { return all_.begin(); }
  Map::const_iterator end() const { return all_.end(); }
  size_t size() const { return all_.size(); }
  /// When the last of them was added.
  int64_t newestNs() const { return newestNs_; }
  /// Sends what was told to any of them since the last time.
  void flushOutboxes() const {
    for (const auto& [key, peer] : all_) peer->flushOutbox();
  }

 private:
  const Self& self_;
  const SideChannel& side_;
  const std::vector<LocalNic>& nics_;
  const Probation probation_;
  Map all_;
  int64_t newestNs_ = INT64_MIN / 2;
};

}  // namespace r2cc
