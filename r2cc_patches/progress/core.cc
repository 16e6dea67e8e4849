#include "core.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/process_life.h"

namespace r2cc::progress {
namespace {

Handle handleOf(Handle parent, Kind kind, unsigned slot, unsigned turn) {
  Handle handle = parent.as(kind);
  handle.slot = slot;
  handle.turn = turn;
  return handle;
}

}  // namespace

Core& Core::ours() {
  static Core& core = *new Core;
  return core;
}

Core::Core() : reporter_(readSettings(), comms_), process_(getpid()) {
  if (!reporter_.enabled()) return;
  somethingRuns(1);
  r2cc::atProcessEnd([this] { reporter_.atProcessEnd(); });
}

void* Core::begin() {
  if (inChild() || !reporter_.enabled()) return nullptr;
  const Handle comm = comms_.open(nowNs());
  if (comm.kind == Kind::kNone) return nullptr;
  reporter_.wake();
  return comm.pointer();
}

void Core::identify(void* context, const Identity& identity) { comms_.identify(Handle::of(context), identity); }

void Core::end(void* context) {
  if (inChild()) return;
  comms_.close(Handle::of(context), [this](Entry& entry) { reporter_.end(entry); });
  reporter_.flush();
}

void* Core::task(void* context, uint64_t bytes) {
  const Handle comm = Handle::of(context);
  Entry* entry = comms_.find(comm);
  if (entry == nullptr || inChild()) return nullptr;
  const Tasks::Ref task = entry->comm.launch(bytes, nowNs());
  return handleOf(comm, Kind::kTask, task.slot, task.turn).pointer();
}

void* Core::op(void* context, int process, void* task, bool sends) {
  if (process != process_ || inChild()) return nullptr;
  const Handle comm = Handle::of(context);
  Entry* entry = comms_.find(comm);
  if (entry == nullptr) return nullptr;
  const Handle parent = Handle::of(task);
  const Tasks::Ref ref{parent.slot, parent.turn};
  const bool known = parent.kind == Kind::kTask && comms_.find(parent) == entry;
  const Op* op = entry->comm.opBegins(known ? &ref : nullptr, sends);
  if (op == nullptr) return nullptr;
  return handleOf(comm, Kind::kOp, entry->comm.slotOf(*op), op->turn.load(std::memory_order_relaxed)).pointer();
}

void* Core::step(void* op) {
  const Handle handle = Handle::of(op);
  Entry* entry = handle.kind == Kind::kOp ? comms_.find(handle) : nullptr;
  Op* found = entry == nullptr ? nullptr : entry->comm.op(handle.slot, handle.turn);
  if (found == nullptr) return nullptr;
  entry->comm.stepBegins(*found);
  return handle.as(Kind::kStep).pointer();
}

void Core::stop(void* pointer) {
  const Handle handle = Handle::of(pointer);
  Entry* entry = comms_.find(handle);
  if (entry == nullptr) return;
  if (handle.kind == Kind::kTask) return entry->comm.launched({handle.slot, handle.turn}, nowNs());
  Op* op = entry->comm.op(handle.slot, handle.turn);
  if (op == nullptr) return;
  if (handle.kind == Kind::kStep) entry->comm.stepEnds(*op, nowNs());
  if (handle.kind == Kind::kOp) entry->comm.opEnds(*op, nowNs());
}

void Core::moved(void* step, uint64_t bytes) {
  const Handle handle = Handle::of(step);
  Entry* entry = handle.kind == Kind::kStep ? comms_.find(handle) : nullptr;
  Op* op = entry == nullptr ? nullptr : entry->comm.op(handle.slot, handle.turn);
  if (op != nullptr) entry->comm.stepMoves(*op, bytes, nowNs());
}

void Core::counted(void* pointer, uint64_t bytes) {
  const Handle handle = Handle::of(pointer);
  Entry* entry = handle.kind == Kind::kOp ? comms_.find(handle) : nullptr;
  Op* op = entry == nullptr ? nullptr : entry->comm.op(handle.slot, handle.turn);
  if (op != nullptr) entry->comm.opHasMoved(*op, bytes);
}

}  // namespace r2cc::progress
