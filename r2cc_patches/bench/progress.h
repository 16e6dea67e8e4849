// The progress thread: the only thread that calls the transport once it is initialised, for all connections, as in NCCL.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "fd.h"

namespace r2cc::bench {

enum class Pass { Done, Moved, Idle };

// What to do after a pass in which nothing moved.
//
// NCCL spins on sched_yield(), one core a process. Where several ranks share few cores that alone makes every measurement
// void, so we yield a few times and then sleep. Sleeping costs no bandwidth while it is shorter than what the socket
// buffers hold; docs/bench.md has the measurement.
class IdleBackoff {
 public:
  explicit IdleBackoff(int sleepUs) : sleepUs_(sleepUs) {}
  void moved() { idlePasses_ = 0; }
  void idle();

 private:
  int sleepUs_;
  int idlePasses_ = 0;
};

class ProgressThread {
 public:
  explicit ProgressThread(int idleUs);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Calls `pass` until it returns Done or throws. One task at a time: collect() first.
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

  Fd ended_;
  IdleBackoff backoff_;
  std::atomic<uint64_t> moves_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<Pass()> task_;      // guarded by mutex_ while no task runs
  std::exception_ptr failure_;      // guarded by mutex_
  std::thread thread_;              // last: starts when everything else stands
};

}  // namespace r2cc::bench
