// The progress thread: the only thread that calls the transport once it is initialised, for all connections, as in
// NCCL.
#pragma once

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/fd.h"

namespace r2cc::bench {

// What one pass over all connections did. Saturated: there is probably more to do at once.
enum class Pass { Done, Saturated, Moved, Idle };

class ProgressThread {
 public:
  explicit ProgressThread(int idleUs) : ended_(eventfd(0, EFD_CLOEXEC)), idleUs_(idleUs) {
    if (!ended_.valid()) throw std::system_error(errno, std::generic_category(), "eventfd");
    thread_ = std::thread([this] { run(); });
  }
  ~ProgressThread() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_.store(true);
    }
    wake_.notify_one();
    thread_.join();
  }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Calls `pass` until it returns Done or throws. One task at a time: collect() first.
  //
  // NCCL spins: a pass that moved nothing is followed by sched_yield(), one core a process. Where several ranks share
  // few cores that alone makes every measurement void. A pass of ours takes all that is there, so that unless it was
  // saturated nothing can be gained by looking again at once: we sleep. That costs no bandwidth while the sleep is
  // shorter than what the socket buffers hold; docs/internals/bench.md has the measurement.
  void start(std::function<Pass()> pass) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      task_ = std::move(pass);
    }
    wake_.notify_one();
  }
  // Readable once the task has ended.
  int endedFd() const { return ended_.get(); }
  // Waits for the end of the task and rethrows what it threw.
  void collect() {
    uint64_t ended = 0;
    while (read(ended_.get(), &ended, sizeof(ended)) < 0) {
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "read of an eventfd");
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  // Grows whenever something moved; for noticing that nothing does.
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }

 private:
  void run() {
    prctl(PR_SET_NAME, "r2cc_progress");
    prctl(PR_SET_TIMERSLACK, 1UL);  // a sleep of 200 us otherwise lasts 250
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_.load() || task_ != nullptr; });
      if (stop_.load()) return;
      lock.unlock();
      std::exception_ptr failure = runTask();
      lock.lock();
      task_ = nullptr;
      failure_ = std::move(failure);
      const uint64_t one = 1;
      if (write(ended_.get(), &one, sizeof(one)) < 0) std::terminate();  // an eventfd of ours is always writable
    }
  }
  std::exception_ptr runTask() {
    try {
      while (!stop_.load(std::memory_order_relaxed)) {
        const Pass pass = task_();
        if (pass == Pass::Done) break;
        if (pass != Pass::Idle) moves_.fetch_add(1, std::memory_order_relaxed);
        if (pass != Pass::Saturated) pause();
      }
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
  void pause() const {
    if (idleUs_ == 0) {
      sched_yield();
      return;
    }
    const timespec time{idleUs_ / 1'000'000, (idleUs_ % 1'000'000) * 1000L};
    nanosleep(&time, nullptr);
  }

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
