#include "record/r2cc_health.h"

#include <algorithm>

#include "record/health_board.h"

namespace r2cc {
namespace {
constexpr uint32_t kUnsaid = UINT32_MAX;
thread_local uint32_t threadsMark = kUnsaid;
}  // namespace

void connectsFor(uint32_t mark) { threadsMark = mark; }
std::optional<uint32_t> threadConnectsFor() {
  return threadsMark == kUnsaid ? std::nullopt : std::optional<uint32_t>(threadsMark);
}

void HealthBoard::open(std::vector<R2ccNicHealth> nics, bool failTogether) {
  const std::lock_guard<std::mutex> lock(mutex_);
  nics_ = std::move(nics);
  failTogether_ = failTogether;
  version_.fetch_add(1, std::memory_order_release);
}

void HealthBoard::set(const std::vector<double>& capacities) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool changed = false;
  for (size_t i = 0; i < std::min(nics_.size(), capacities.size()); i++) {
    changed |= nics_[i].capacity != capacities[i];
    nics_[i].capacity = capacities[i];
  }
  if (changed) version_.fetch_add(1, std::memory_order_release);
}

int HealthBoard::read(R2ccNicHealth* out, int most) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int count = static_cast<int>(nics_.size());
  std::copy_n(nics_.begin(), std::clamp(most, 0, count), out);
  return count;
}

HealthBoard& healthBoard() {
  static HealthBoard& board = *new HealthBoard;  // never destroyed: the engine's thread may outlive main
  return board;
}

}  // namespace r2cc

uint64_t r2ccHealthVersion(void) { return r2cc::healthBoard().version(); }

int r2ccNicsFailTogether(void) { return r2cc::healthBoard().failTogether() ? 1 : 0; }

void r2ccUnevenLoad(int begins, uint64_t schedule, int in_turn) {
  r2cc::healthBoard().uneven(begins, schedule, in_turn != 0);
}

void r2ccScheduleConnects(int begins, uint64_t schedule, uint64_t window, int turn) {
  r2cc::healthBoard().scheduleConnects(begins, {schedule, window, turn});
}

int r2ccHealth(struct R2ccNicHealth* out, int most) { return r2cc::healthBoard().read(out, most); }
