#include "capacity.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace r2cc {
namespace {

constexpr double kLeastBusy = 0.25;  // of a window: with less, the rate says nothing
// What its connections wait for is a path that is always busy, or mostly so and carries less than its siblings.
constexpr double kAlwaysBusy = 0.95, kMostlyBusy = 0.75, kBehind = 0.90;
constexpr double kSlow = 0.80, kFull = 0.92;  // of the second fastest sibling
constexpr int kWindowsToAct = 5, kWindowsToAgree = 2;
constexpr int64_t kAgreeNs = msToNs(1000);
constexpr int kWindowsToTrust = 10;         // not slow, or not even busy, for so long
constexpr double kStep = 0.15;              // a known weakness is only corrected by this much or more, relatively
constexpr double kWeakest = 0.02;           // below it a path is not worth a message
constexpr int64_t kStaleNs = msToNs(2000);  // siblings are compared over about the same time
constexpr double kSustained = 0.90;         // of a window: it rested too little to save up anything
constexpr int64_t kProvenNs = msToNs(10'000);

/// The second largest of three or more: a path that seems too fast (little traffic, in bursts) accuses nobody. Of fewer
/// the largest; of none, 0.
template <class T>
T secondOfMany(std::vector<T> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end(), std::greater<>());
  return values[values.size() > 2 ? 1 : 0];
}

}  // namespace

void Capacities::add(const Path& path, uint64_t bytes, int64_t busyNs) {
  Account& account = accounts_[&path];
  account.bytes += bytes;
  account.busyNs = std::max(account.busyNs, busyNs);
}

double Capacities::median(const Account& account) {
  auto rates = account.rates;
  std::sort(rates.begin(), rates.end());
  return rates[kWindows / 2];
}

void Capacities::sustain(Account& account, double rate, int64_t now) {
  if (rate < account.sustained && now - account.sustainedNs < kProvenNs) return;
  account.sustained = rate;
  account.sustainedNs = now;
}

double Capacities::shown(const Account& account, int64_t now) {
  const double seems = median(account);
  const bool proven = account.sustained > 0 && now - account.sustainedNs < kProvenNs;
  return proven ? std::min(seems, account.sustained) : seems;
}

std::vector<Path*> Capacities::close(const std::vector<std::unique_ptr<Path>>& paths, int64_t now) {
  const int64_t window = now - last_;
  last_ = now;
  std::vector<Path*> changed;
  if (window > 3 * kWindowNs) {  // the first one, or we were not running
    for (auto& [path, account] : accounts_) account.bytes = 0, account.busyNs = 0;
    return changed;
  }
  bool work = false;
  std::vector<uint64_t> carried;
  carried.reserve(accounts_.size());
  for (const auto& [path, account] : accounts_) carried.push_back(account.bytes);
  const double usual = static_cast<double>(secondOfMany(std::move(carried)));
  std::vector<double> recent;
  for (auto& [path, account] : accounts_) {
    const double busy = static_cast<double>(account.busyNs) / static_cast<double>(window);
    if (busy >= kLeastBusy) {
      const double rate = static_cast<double>(account.bytes) / static_cast<double>(account.busyNs);
      account.rates[account.count++ % kWindows] = rate;
      if (busy >= kSustained) sustain(account, rate, now);
      account.lastNs = now;
      work = true;
    }
    const bool behind = static_cast<double>(account.bytes) < kBehind * usual;
    account.waitedFor = busy >= (behind ? kMostlyBusy : kAlwaysBusy);
    account.bytes = 0, account.busyNs = 0;
    if (account.count >= kWindows && now - account.lastNs < kStaleNs) recent.push_back(shown(account, now));
  }
  const double reference = secondOfMany(std::move(recent));
  if (reference <= 0) return changed;
  for (const auto& path : paths) {
    const auto it = accounts_.find(path.get());
    if (it == accounts_.end() || it->second.count < kWindows) continue;
    Account& account = it->second;
    const bool spoke = account.lastNs == now;
    if (spoke ? judge(*path, account, reference, now) : work && trust(*path, account)) changed.push_back(path.get());
  }
  return changed;
}

bool Capacities::trust(Path& path, Account& account) {
  if (path.capacity >= 1.0 || ++account.easy < kWindowsToTrust) return false;
  account.easy = 0;
  path.capacity = std::min(1.0, 2 * path.capacity);
  return true;
}

/// Slow or full for several windows in a row, and by enough to be worth a change of plans. One that sends a chunk now
/// and then seems slow beside one that always sends, as each chunk's acknowledgement is waited for: only one that its
/// connections wait for is slow.
bool Capacities::judge(Path& path, Account& account, double reference, int64_t now) {
  const double measured = std::clamp(median(account) / reference, kWeakest, 1.0);
  account.measured = measured;
  account.easy = 0;
  if (measured >= kSlow) account.slow = 0;
  if (measured < kSlow && account.waitedFor) account.slow++;
  account.fair = measured < kSlow ? 0 : account.fair + 1;
  account.full = measured > kFull ? account.full + 1 : 0;
  // What would not be called slow now is not held against it for ever.
  const bool well = account.full >= kWindowsToAct || account.fair >= kWindowsToTrust;
  if (well && path.capacity < 1.0) return path.capacity = 1.0, true;
  return settle(path, account, now);
}

bool Capacities::settle(Path& path, Account& account, int64_t now) {
  if (account.slow < (now < account.othersUntil ? kWindowsToAgree : kWindowsToAct)) return false;
  if (std::abs(account.measured - path.capacity) < kStep * path.capacity) return false;
  path.capacity = account.measured;
  account.slow = 0;
  return true;
}

bool Capacities::knows(const Path& path) const {
  const auto it = accounts_.find(&path);
  return it != accounts_.end() && it->second.count >= kWindows;
}

bool Capacities::agree(Path& path, int64_t now) {
  const auto it = accounts_.find(&path);
  if (it == accounts_.end()) return false;
  it->second.othersUntil = now + kAgreeNs;
  return now - it->second.lastNs < kStaleNs && settle(path, it->second, now);
}

}  // namespace r2cc
