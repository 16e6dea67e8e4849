// The progress thread: the only thread that calls the transport once it is initialised, for all connections, as in
// NCCL.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "base/fd.h"

namespace r2cc::bench {

// What one pass over all connections did. Saturated: there is probably more to do at once.
enum class Pass { Done, Saturated, Moved, Idle };

class ProgressThread {
 public:
  explicit ProgressThread(int idleUs);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Calls `pass` until it returns Done or throws. One task at a time: collect() first.
  //
  // NCCL spins: a pass that moved nothing is followed by sched_yield(), one core a process. Where several ranks share
  // few cores that alone makes every measurement void. A pass of ours takes all that is there, so that unless it was
  // saturated nothing can be gained by looking again at once: we sleep. That costs no bandwidth while the sleep is
  // shorter than what the socket buffers hold; docs/internals/bench.md has the measurement.
  void start(std::function<Pass()> pass);
  // Readable once the task has ended.
  int endedFd() const { return ended_.get(); }
  // Waits for the end of the task and rethrows what it threw.
  void collect();
  // Grows whenever something moved; for noticing that nothing does.
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }

 private:
  void run();
  std::exception_ptr runTask();
  void pause() const;

  Fd ended_;
  int idleUs_;
  std::atomic<uint64_t> moves_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<Pass()> task_;  // guarded by mutex_ while no task runs
  std::exception_ptr failure_;  // guarded by mutex_
  std::thread thread_;          // last: starts when everything else stands
};

}  // namespace r2cc::bench
