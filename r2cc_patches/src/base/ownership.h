// Who may touch a connection right now. NCCL's threads try and, if another thread holds it, say "not done yet"; the
// engine waits (holders only post and test, for microseconds). Uncontended it is one atomic exchange.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace r2cc {

class Ownership {
 public:
  /// For threads that come again soon: they stand back while somebody waits.
  bool tryAcquire() { return waiting_.load(std::memory_order_relaxed) == 0 && take(); }
  /// A progress thread takes it again microseconds after it let go: without waiting_ one that sleeps would starve.
  void acquire() {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    while (!take()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  void release() { held_.store(false, std::memory_order_release); }

 private:
  bool take() { return !held_.exchange(true, std::memory_order_acquire); }
  std::atomic<bool> held_{false};
  std::atomic<int> waiting_{0};
};

/// Holds it, or failed to (then converts to false), until the end of the scope.
class Owned {
 public:
  enum class Wait { No, Yes };
  Owned(Ownership& o, Wait wait) : o_(o), mine_(wait == Wait::Yes ? (o.acquire(), true) : o.tryAcquire()) {}
  ~Owned() {
    if (mine_) o_.release();
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  explicit operator bool() const { return mine_; }

 private:
  Ownership& o_;
  bool mine_;
};

}  // namespace r2cc
