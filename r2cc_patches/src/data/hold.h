// A sending end that carries nothing: how much of that counts against R2CC_HOLD_MS, and which paths refused a lane.
// All of it since the connection last could carry data, so that a path that comes and goes does not begin it anew.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"

namespace r2cc {

class Path;

class Hold {
 public:
  /// How it was spent since the last look.
  enum class Spent : uint8_t {
    NoPath,     // there is none
    NoLane,     // one is up, the peer answers, and data cannot pass
    Exchange,   // the same, in the exchange for a lane that is there
    Silence,    // the peer does not answer: whether it is given up is not asked here (Judge::watchSilence)
    Elsewhere,  // a fence is waited for, which has a limit of its own
  };
  /// The connection carries data again.
  void end() { *this = {}; }
  void look(Spent how, int64_t now) {
    const int64_t passed = lookedAt_ == 0 ? 0 : now - lookedAt_;
    lookedAt_ = now;
    silentNs_ = how == Spent::Silence ? silentNs_ + passed : 0;
    // A path that leads to a stopped process ends a time without any, as it always did.
    if (silentNs_ > kSilentNs) noPathNs_ = 0;
    if (how == Spent::NoPath) noPathNs_ += passed;
    if (how == Spent::NoLane || how == Spent::Exchange) noLaneNs_ += passed;
    exchangeNs_ = how == Spent::Exchange ? exchangeNs_ + passed : how == Spent::Silence ? exchangeNs_ : 0;
  }
  void forgetNoPath() { noPathNs_ = 0; }
  int64_t noLaneNs() const { return noLaneNs_; }
  int64_t exchangeNs() const { return exchangeNs_; }
  int64_t ns() const { return noPathNs_ + noLaneNs_; }

  /// No lane could be made there. The first ones are tried again at once.
  void refuse(const Path* path, const std::string& why, int64_t now) {
    refusals_[path]++;
    path_ = path;
    why_ = why;
    if (++tries_ < kQuickTries) return;
    nextTry_ = now + pause_;
    pause_ = std::min(2 * pause_, kMostPauseNs);
  }
  /// It was lost: when it is back it has refused nothing.
  void forget(const Path* path) { refusals_.erase(path); }
  int refusals(const Path* path) const {
    const auto it = refusals_.find(path);
    return it == refusals_.end() ? 0 : it->second;
  }
  bool mayTry(const Path* path, int64_t now) const { return now >= nextTry_ || refusals(path) == 0; }
  int tries() const { return tries_; }
  /// The last one that refused, and why; null: none did.
  const Path* path() const { return path_; }
  const std::string& why() const { return why_; }
  /// True once.
  bool say() { return !std::exchange(said_, true); }

 private:
  static constexpr int64_t kSilentNs = msToNs(1000);
  static constexpr int kQuickTries = 4;
  static constexpr int64_t kMostPauseNs = msToNs(200);  // each lane is asked for on two paths or three
  int64_t lookedAt_ = 0, silentNs_ = 0, noPathNs_ = 0, noLaneNs_ = 0, exchangeNs_ = 0;
  std::map<const Path*, int> refusals_;
  const Path* path_ = nullptr;
  std::string why_;
  int tries_ = 0;
  int64_t nextTry_ = 0, pause_ = msToNs(4);
  bool said_ = false;
};

}  // namespace r2cc
