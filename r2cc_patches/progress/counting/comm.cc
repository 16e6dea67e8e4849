#include "comm.h"

#include <algorithm>

#include "base/clock.h"
#include "handle.h"

namespace r2cc::progress {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// What is under way is counted after the move that it begins or ends with, and so is read before it.
constexpr auto kSeen = std::memory_order_acquire, kShown = std::memory_order_release;

Stretch longer(const Stretch& noted, int64_t beganNs, int64_t nowNs) {
  const int64_t us = (nowNs - beganNs) / 1000;
  return us > noted.us ? Stretch{us, beganNs} : noted;
}

}  // namespace

void Comm::begin(int64_t nowNs) {
  nodes_ = 0;
  networked_ = false;
  tasks_.clear();
  ops_.clear();
  bytes_ = launchedBytes_ = 0;
  moving_ = sending_ = 0;
  lastMoveNs_ = lastLaunchNs_ = sendingSinceNs_ = nowNs;
  for (Longest* longest : {&still_, &pendingStill_, &sendingStill_}) (void)longest->take(nowNs);
}

Tasks::Ref Comm::launch(uint64_t bytes, int64_t nowNs) {
  still_.note(std::max(lastMoveNs_.load(kRelaxed), lastLaunchNs_.exchange(nowNs, kRelaxed)), nowNs);
  launchedBytes_.fetch_add(bytes, kRelaxed);
  return tasks_.begin();
}

void Comm::launched(Tasks::Ref task, int64_t nowNs) {
  const bool moved = tasks_.launched(task, nowNs);
  if (!moved && nodes_.load(kRelaxed) == 1 && !networked_.load(kRelaxed)) tasks_.end(task);
}

Op* Comm::opBegins(const Tasks::Ref* task, bool sends) {
  Op* op = ops_.take();
  if (op == nullptr) return nullptr;
  op->sends.store(sends, kRelaxed);
  op->hasTask.store(task != nullptr, kRelaxed);
  if (task != nullptr) op->task.store(*task, kRelaxed);
  op->hasBase.store(false, kRelaxed);
  op->sending.store(0, kRelaxed);
  op->state.store(Op::State::kWaits, kRelaxed);
  return op;
}

/// NCCL begins a step again and again while the network does not take it: only an operation's first counts.
void Comm::stepBegins(Op& op) {
  if (op.state.load(kRelaxed) != Op::State::kWaits) return;
  if (!pending()) moves(nowNs());  // what is under way from here on stands still from here on
  op.state.store(Op::State::kMoves, kRelaxed);
  networked_.store(true, kRelaxed);
  moving_.fetch_add(1, kShown);
  if (op.hasTask.load(kRelaxed)) tasks_.moving(op.task.load(kRelaxed), 1);
}

void Comm::stepMoves(Op& op, uint64_t bytes, int64_t nowNs) {
  moves(nowNs);
  bytes_.fetch_add(bytes, kRelaxed);
  if (!op.sends.load(kRelaxed)) return;
  op.sending.fetch_add(1, kRelaxed);
  if (sending_.fetch_add(1, kShown) == 0) sendingSinceNs_.store(nowNs, kRelaxed);
}

void Comm::stepEnds(Op& op, int64_t nowNs) {
  moves(nowNs);
  if (op.sending.load(kRelaxed) == 0) return;
  op.sending.fetch_sub(1, kRelaxed);
  sending_.fetch_sub(1, kShown);
}

void Comm::opHasMoved(Op& op, uint64_t bytes) {
  const uint64_t before = op.counted.exchange(bytes, kRelaxed);
  if (op.hasBase.exchange(true, kRelaxed) && bytes > before) bytes_.fetch_add(bytes - before, kRelaxed);
}

void Comm::opEnds(Op& op, int64_t nowNs) {
  const bool moved = op.state.load(kRelaxed) == Op::State::kMoves;
  if (moved) {
    moves(nowNs);
    sending_.fetch_sub(static_cast<int>(op.sending.exchange(0, kRelaxed)), kShown);
    moving_.fetch_sub(1, kShown);
    if (op.hasTask.load(kRelaxed)) tasks_.moving(op.task.load(kRelaxed), -1);
  }
  op.turn.fetch_add(1, kRelaxed);
  op.state.store(Op::State::kFree, kRelaxed);
}

void Comm::moves(int64_t nowNs) {
  const int64_t before = lastMoveNs_.exchange(nowNs, kRelaxed);
  if (pending()) pendingStill_.note(before, nowNs);
  if (sending_.load(kSeen) > 0) sendingStill_.note(std::max(before, sendingSinceNs_.load(kRelaxed)), nowNs);
  still_.note(std::max(before, lastLaunchNs_.load(kRelaxed)), nowNs);
}

void Comm::settle(int64_t nowNs, bool last) { tasks_.settle(!pending(), last ? nowNs : nowNs - kGraceNs); }

Totals Comm::totals() const {
  Totals totals;
  totals.ended = tasks_.ended();  // before what was started: never more than that
  totals.collectives = tasks_.started();
  totals.bytes = bytes_.load(kRelaxed);
  totals.launched = launchedBytes_.load(kRelaxed);
  return totals;
}

Stills Comm::stills(int64_t nowNs) {
  // What is under way is asked for first: when it ends meanwhile, the last move is that end.
  const bool pends = pending(), sends = sending_.load() > 0;
  const int64_t moved = lastMoveNs_.load();
  Stills stills{still_.take(nowNs).us, pendingStill_.take(nowNs), sendingStill_.take(nowNs)};
  stills.stillUs = longer({stills.stillUs, 0}, std::max(moved, lastLaunchNs_.load()), nowNs).us;
  if (pends) stills.pending = longer(stills.pending, moved, nowNs);
  if (sends) stills.sending = longer(stills.sending, std::max(moved, sendingSinceNs_.load()), nowNs);
  return stills;
}

Op* Comm::op(unsigned slot, unsigned turn) { return ops_.find(slot, turn, Handle::mask(Handle::kTurnBits)); }

}  // namespace r2cc::progress
