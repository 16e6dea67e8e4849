#include "tasks.h"

#include <algorithm>

#include "handle.h"

namespace r2cc::progress {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// A word comes after what it speaks of: when it was launched, that it was counted as begun.
constexpr auto kSeen = std::memory_order_acquire, kShown = std::memory_order_release;
constexpr auto kBoth = std::memory_order_acq_rel;

/// A handle keeps the low bits of a turn.
bool sameTurn(uint64_t turn, unsigned other) { return ((turn ^ other) & Handle::mask(Handle::kTurnBits)) == 0; }

}  // namespace

template <typename Change>
std::optional<uint64_t> Tasks::change(Ref task, const Change& change) {
  std::atomic<uint64_t>& word = tasks_[task.slot % kMost].word;
  uint64_t before = word.load(kRelaxed);
  uint64_t after = 0;
  do {
    if (!sameTurn(before >> kTurnShift, task.turn)) return std::nullopt;
    after = change(before);
    if (over(after)) after |= kEnded;
  } while (!word.compare_exchange_weak(before, after, kBoth, kRelaxed));
  if ((after & ~before & kEnded) != 0) {
    ended_.fetch_add(1, kShown);
    if (over(after)) endedByItself(task);
  }
  return after;
}

Tasks::Ref Tasks::begin() {
  const Ref task = refOf(started_.fetch_add(1, kRelaxed));
  const uint64_t before = tasks_[task.slot].word.exchange(uint64_t{task.turn} << kTurnShift, kBoth);
  if ((before & kEnded) == 0) ended_.fetch_add(1, kShown);
  return task;
}

bool Tasks::launched(Ref task, int64_t nowNs) {
  tasks_[task.slot % kMost].launchedNs.store(nowNs, kRelaxed);
  const auto word = change(task, [](uint64_t before) { return before | kLaunched; });
  return !word || (*word & kMoved) != 0;
}

void Tasks::moving(Ref task, int by) {
  change(task, [by](uint64_t before) {
    if (by > 0) return (before | kMoved) + kOne;
    return (before & kCountMask) != 0 ? before - kOne : before;
  });
}

void Tasks::end(Ref task) {
  change(task, [](uint64_t before) { return before | kEnded; });
}

/// Turns of a handle are short: the number is the latest that has this place, which it can only be late for.
void Tasks::endedByItself(Ref task) {
  const uint64_t last = started() - 1;
  const uint64_t number = last - (last - task.slot) % kMost;
  uint64_t upTo = movedUpTo_.load(kRelaxed);
  while (upTo < number + 1 && !movedUpTo_.compare_exchange_weak(upTo, number + 1, kRelaxed)) {
  }
}

void Tasks::settle(bool idle, int64_t untilNs) {
  const uint64_t all = started();
  const uint64_t passed = movedUpTo_.load(kRelaxed);
  if (all > kMost) settled_ = std::max(settled_, all - kMost);
  for (; settled_ < all; settled_++) {
    const Ref task = refOf(settled_);
    const Task& slot = tasks_[task.slot];
    const uint64_t word = slot.word.load(kSeen);
    if ((word & kEnded) != 0) continue;
    if ((word & kLaunched) == 0 || (word & kMoved) != 0) return;
    if (settled_ >= passed && !(idle && slot.launchedNs.load(kRelaxed) <= untilNs)) return;
    end(task);
  }
}

void Tasks::clear() {
  for (Task& task : tasks_)
    task.word.store((task.word.load(kRelaxed) & ~(kCountMask | kMoved | kLaunched)) | kEnded, kRelaxed);
  started_ = ended_ = movedUpTo_ = settled_ = 0;
}

}  // namespace r2cc::progress
