#include "paths/capacity.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <functional>

namespace r2cc {
namespace {

constexpr int64_t kLongestNs = msToNs(300);  // a longer window is the first one, or we were not running
constexpr int64_t kLanesAWindow = 64;        // asking each costs a system call: many are asked less often
constexpr int64_t kMostStretch = 4;
constexpr double kLeastBusy = 0.25;  // of a window: then there is work
// Of network time in a sample, gathered over several windows where there is little: the kernel counts it in its own
// ticks, of up to 4 ms mostly.
constexpr int64_t kEnoughNs = msToNs(8), kPooledNs = msToNs(250);
// The kernel sends, and a shaper lets through, up to 64 KiB at once. Who is called slow has been so while a sibling
// carries this much: fewer packets say how they fell into the samples.
constexpr double kEnoughBytes = 16.0 * (64 << 10);
// What its connections wait for is a path that is always busy, or mostly so and carries less than its siblings.
constexpr double kAlwaysBusy = 0.95, kMostlyBusy = 0.75, kBehind = 0.90;
constexpr double kSlow = 0.80, kFull = 0.92;                                // of the second fastest sibling
constexpr double kMuchSlower = 0.65;                                        // than it is said to be: found soon
constexpr int kSamplesIfMuch = 3, kSamplesToAct = 12, kSamplesToAgree = 1;  // on top of those that make a median slow
constexpr int kSamplesIfSilent = 20, kSilentToAgree = 5;
constexpr double kFell = 0.6;                 // of what it sustained
constexpr int64_t kFellNs = msToNs(2000);     // for so long that counts: in a slow iteration it may rest for long
constexpr int64_t kAllFellNs = msToNs(2000);  // one that is behind for so long is slow in its own right
constexpr int64_t kAgreeNs = msToNs(1000);
constexpr int kSamplesToBeWhole = 5, kSamplesToBeFair = 10;
constexpr double kBetter = 1.4;  // than it is said to be
constexpr int kSamplesIfBetter = 2;
constexpr int kEasyToTrust = 20;                 // windows in a row in which nobody waited for it
constexpr int kSilentIsEasy = 2;                 // those in which it was not even busy count more
constexpr int64_t kRaiseHoldsNs = msToNs(2000);  // what was given more and is slow again sooner waits for the next time
constexpr int64_t kRaisePauseNs = msToNs(500), kMostRaisePauseNs = msToNs(16'000);
constexpr int64_t kDoubtNs = msToNs(500), kMostDoubtNs = msToNs(64'000);  // twice as long after each try
constexpr double kBeyond = 1.2;             // what seems so much more than it did at a wrong try waits for no pause
constexpr double kStep = 0.15;              // a known weakness is only corrected by this much or more, relatively
constexpr double kWeakest = 0.02;           // below it a path is not worth a message
constexpr int64_t kStaleNs = msToNs(2000);  // siblings are compared over about the same time
constexpr double kSustained = 0.90;         // of the time: it rested too little to save up anything
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

void Capacities::add(const Path& path, uint64_t bytes, int64_t busyNs, bool clocked) {
  Account& account = accounts_[&path];
  Sample& window = account.window;
  account.clocked = clocked;
  window.bytes += bytes;
  window.busyNs = std::max(window.busyNs, busyNs);
  lanes_++;
}

Capacities::Sample Capacities::last(const Account& account, size_t count) {
  Sample sum;
  for (size_t i = 1; i <= std::min({count, account.count, kKept}); i++) {
    sum += account.samples[(account.count - i) % kKept];
  }
  return sum;
}

Capacities::Sample Capacities::load(const Account& account) {
  Sample sum;
  for (const Sample& window : account.loads) sum += window;
  return sum;
}

double Capacities::median(const Account& account) {
  std::array<double, kWindows> rates{};
  for (size_t i = 0; i < kWindows; i++) rates[i] = account.samples[(account.count - 1 - i) % kKept].rate();
  std::sort(rates.begin(), rates.end());
  return rates[kWindows / 2];
}

/// Nothing at all gets through, or hardly ever: one lost segment does that, too, until TCP sends it again.
bool Capacities::silent(const Account& account) {
  int nothing = 0;
  for (size_t i = 0; i < kWindows; i++) nothing += account.samples[(account.count - 1 - i) % kKept].bytes == 0 ? 1 : 0;
  return nothing > static_cast<int>(kWindows / 2);
}

void Capacities::sustain(Account& account, int64_t now) {
  const Sample lately = load(account);
  if (account.turn < kLoads || lately.busy() < kSustained) return;
  if (lately.rate() < account.sustained && now - account.sustainedNs < kProvenNs) return;
  account.sustained = lately.rate();
  account.sustainedNs = now;
}

double Capacities::shown(const Account& account, int64_t now) {
  const double seems = median(account);
  const bool proven = account.sustained > 0 && now - account.sustainedNs < kProvenNs;
  return proven ? std::min(seems, account.sustained) : seems;
}

/// A sample once there is enough of it. Too little for long says nothing.
void Capacities::pool(Account& account, int64_t now) {
  account.pooled += account.window;
  if (account.pooled.busyNs >= kEnoughNs) {
    account.samples[account.count++ % kKept] = account.pooled;
    account.lastNs = now;
  } else if (account.pooled.ns < kPooledNs) {
    return;
  }
  account.pooled = {};
}

/// Whether anybody had to work.
bool Capacities::note(int64_t window, int64_t now) {
  bool work = false;
  std::vector<uint64_t> carried;
  carried.reserve(accounts_.size());
  for (auto& [path, account] : accounts_) {
    account.window.ns = window;
    work |= account.window.busy() >= kLeastBusy;
    account.loads[account.turn++ % kLoads] = account.window;
    pool(account, now);
    account.window = {};
    sustain(account, now);
    carried.push_back(load(account).bytes);
  }
  const double usual = static_cast<double>(secondOfMany(std::move(carried)));
  for (auto& [path, account] : accounts_) {
    const Sample lately = load(account);
    const bool behind = static_cast<double>(lately.bytes) < kBehind * usual;
    account.waitedFor = lately.busy() >= (behind ? kMostlyBusy : kAlwaysBusy);
    const bool proven = account.sustained > 0 && now - account.sustainedNs < kProvenNs;
    const bool works = lately.busy() >= kMostlyBusy && account.count >= kWindows;
    if (proven && works && median(account) < kFell * account.sustained) account.fellNs = now;
  }
  return work;
}

double Capacities::reference(int64_t now) const {
  std::vector<double> recent;
  for (const auto& [path, account] : accounts_) {
    if (account.count >= kWindows && now - account.lastNs < kStaleNs) recent.push_back(shown(account, now));
  }
  return secondOfMany(std::move(recent));
}

/// What its siblings carry fell, too, while they had to work: others fill the switch, or this host's NICs. TCP's luck
/// then decides for a while who seems slow beside whom, and there is nowhere to go. One slow NIC lets its siblings
/// rest.
bool Capacities::allFell(const Account& judged, int64_t now) const {
  int siblings = 0, fell = 0;
  for (const auto& [path, account] : accounts_) {
    if (&account == &judged || now - account.lastNs >= kStaleNs) continue;
    siblings++;
    fell += now - account.fellNs < kFellNs ? 1 : 0;
  }
  return fell > 0 && 2 * fell >= siblings;
}

std::vector<Path*> Capacities::close(const std::vector<std::unique_ptr<Path>>& paths, int64_t now) {
  const int64_t window = now - last_;
  last_ = now;
  windowNs_ = kWindowNs * std::clamp<int64_t>(lanes_ / kLanesAWindow, 1, kMostStretch);
  lanes_ = 0;
  std::vector<Path*> changed;
  if (window > kLongestNs) {
    for (auto& [path, account] : accounts_) account.window = {}, account.pooled = {};
    return changed;
  }
  const bool work = note(window, now);
  const double siblings = reference(now);
  if (siblings <= 0) return changed;
  for (const auto& path : paths) {
    const auto it = accounts_.find(path.get());
    if (it == accounts_.end() || it->second.count < kWindows) continue;
    Account& account = it->second;
    const bool spoke = account.lastNs == now;
    if (account.waitedFor) account.easy = 0;
    if (work && !account.waitedFor) account.easy += spoke ? 1 : kSilentIsEasy;
    const bool judged = spoke && judge(*path, account, siblings, now);
    if (judged || trust(*path, account, siblings, now)) changed.push_back(path.get());
  }
  return changed;
}

bool Capacities::trust(Path& path, Account& account, double reference, int64_t now) {
  if (path.capacity >= 1.0 || now < account.raiseFrom) return false;
  const bool doubted = account.clocked && account.doubted && now - account.weakNs >= account.doubtNs;
  if (account.easy < kEasyToTrust && !doubted) return false;
  if (doubted) account.weakNs = now, account.doubtNs = std::min(2 * account.doubtNs, kMostDoubtNs);
  return raise(path, account, 2 * path.capacity, median(account) / reference, now);
}

bool Capacities::raise(Path& path, Account& account, double to, double seems, int64_t now) {
  if (now - account.raiseFrom > kProvenNs) account.pauseNs = 0, account.refuted = 0;  // that was long ago
  path.capacity = to > kFull ? 1.0 : to;
  account.slow = account.better = account.easy = 0;
  account.raisedNs = now;
  account.seemed = seems;
  return true;
}

/// Of samples in a row. One that sends a chunk now and then seems slow beside one that always sends, as each chunk's
/// acknowledgement is waited for: only one that its connections wait for is slow.
void Capacities::count(const Path& path, Account& account, double reference, int64_t now) {
  const double usual = median(account) / reference;
  if (usual >= kSlow) account.slow = 0, account.slowSinceNs = now;
  if (usual < kSlow && account.waitedFor && last(account, 1).rate() < kSlow * reference) account.slow++;
  account.fair = usual < kSlow ? 0 : account.fair + 1;
  account.full = usual > kFull ? account.full + 1 : 0;
  const double enough = kBetter * path.capacity;
  const bool better = usual >= enough && last(account, kWindows).rate() >= enough * reference;
  account.better = better ? account.better + 1 : 0;
}

/// Slow, or better than it is said to be, for several samples in a row, and by enough to be worth a change of plans.
bool Capacities::judge(Path& path, Account& account, double reference, int64_t now) {
  count(path, account, reference, now);
  const double seems = median(account) / reference;
  account.seemed = std::max(account.seemed, seems);
  if (path.capacity < 1.0 && (now >= account.raiseFrom || seems >= kBeyond * account.refuted)) {
    // What would not be called slow now is not held against it for ever.
    const bool well = account.full >= kSamplesToBeWhole || account.fair >= kSamplesToBeFair;
    if (well) return raise(path, account, 1.0, seems, now);
    if (account.better >= kSamplesIfBetter) return raise(path, account, seems, seems, now);
  }
  return settle(path, account, reference, now);
}

int Capacities::needed(const Path& path, const Account& account, double reference, int64_t now) const {
  if (now - account.slowSinceNs < kAllFellNs && allFell(account, now)) return INT_MAX;
  const bool agreed = now < account.othersUntil;
  if (silent(account)) return agreed ? kSilentToAgree : kSamplesIfSilent;
  const bool much = median(account) < kMuchSlower * path.capacity * reference;
  if (path.capacity < 1.0 && !much) return kSamplesToAct;  // a weakness that is known: only to know it better
  if (agreed) return kSamplesToAgree;
  return much ? kSamplesIfMuch : kSamplesToAct;
}

bool Capacities::settle(Path& path, Account& account, double reference, int64_t now) {
  if (account.slow == 0 || account.slow < needed(path, account, reference, now)) return false;
  const size_t slowSince = static_cast<size_t>(account.slow) + kWindows / 2;  // its median is slow by then
  const auto enough = [reference](const Sample& sum) {
    return reference * static_cast<double>(sum.busyNs) >= kEnoughBytes;
  };
  Sample since = last(account, std::min(slowSince, kCounted));
  if (!enough(since)) since = last(account, slowSince);
  if (!enough(since)) return false;
  const double found = std::clamp(since.rate() / reference, kWeakest, 1.0);
  if (std::abs(found - path.capacity) < kStep * path.capacity) return false;
  if (found < path.capacity) {
    const int64_t holdsNs = kRaiseHoldsNs + (allFell(account, now) ? kAllFellNs : 0);
    const bool wrong = account.raisedNs > 0 && now - account.raisedNs < holdsNs;
    if (wrong) account.pauseNs = std::clamp(2 * account.pauseNs, kRaisePauseNs, kMostRaisePauseNs);
    if (wrong) account.raiseFrom = now + account.pauseNs, account.refuted = std::max(account.refuted, account.seemed);
    account.raisedNs = 0;  // one try, one pause, however far it falls
    if (now - account.weakNs > kProvenNs + account.doubtNs) account.doubtNs = kDoubtNs;  // that was long ago
    if (account.doubtNs == kDoubtNs) account.weakNs = now;
  }
  path.capacity = found;
  account.slow = account.better = 0;
  return true;
}

bool Capacities::knows(const Path& path) const {
  const auto it = accounts_.find(&path);
  return it != accounts_.end() && it->second.count >= kWindows;
}

bool Capacities::agree(Path& path, int64_t now) {
  const auto it = accounts_.find(&path);
  if (it == accounts_.end() || it->second.count < kWindows) return false;
  it->second.othersUntil = now + kAgreeNs;
  const double siblings = reference(now);
  return siblings > 0 && now - it->second.lastNs < kStaleNs && settle(path, it->second, siblings, now);
}

void Capacities::doubt(const Path& path, bool doubted) {
  if (const auto it = accounts_.find(&path); it != accounts_.end()) it->second.doubted = doubted;
}

void Capacities::hope(const Path& path, int64_t now) {
  const auto it = accounts_.find(&path);
  if (it == accounts_.end()) return;
  it->second.pauseNs = 0;
  it->second.refuted = 0;
  it->second.raiseFrom = std::min(it->second.raiseFrom, now);
  it->second.doubtNs = kDoubtNs;
  it->second.weakNs = std::min(it->second.weakNs, now - kDoubtNs);
}

}  // namespace r2cc
