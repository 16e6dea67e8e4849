// All communicators of the process. They are made at need and never freed, so that a late event finds at worst
// another's place, which its handle does not fit.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "comm.h"
#include "handle.h"

namespace r2cc::progress {

/// A communicator and what only whoever holds the lock may touch.
struct Entry {
  Comm comm;
  std::atomic<unsigned> life{0};
  std::atomic<bool> identified{false};
  Identity identity;
  bool open = false, begun = false;  // begun: its first line is written
  Totals written;
  int64_t writtenNs = 0;
};

class Comms {
 public:
  /// The handle of a new one; none when there are too many.
  Handle open(int64_t nowNs);
  void identify(Handle comm, const Identity& identity);
  bool identified(Handle comm);
  /// `last` is called for it with the lock held.
  void close(Handle comm, const std::function<void(Entry&)>& last);
  /// With the lock held: for each that is open.
  void each(const std::function<void(Entry&)>& visit);
  bool empty();

  /// Nothing when what the handle stood for is over. No lock.
  Entry* find(Handle handle) {
    Entry* entry = handle.kind == Kind::kNone ? nullptr : entries_[handle.comm].load(std::memory_order_acquire);
    if (entry == nullptr) return nullptr;
    return ((entry->life.load(std::memory_order_relaxed) ^ handle.life) & Handle::mask(Handle::kLifeBits)) == 0
               ? entry
               : nullptr;
  }

 private:
  static constexpr unsigned kMost = 1U << Handle::kCommBits;
  std::array<std::atomic<Entry*>, kMost> entries_{};
  std::mutex mutex_;
  unsigned made_ = 0, open_ = 0;
  std::vector<unsigned> free_;
};

}  // namespace r2cc::progress
