// The progress thread: the only thread that calls the transport once it is initialised, for all connections, as in
// NCCL.
#pragma once

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <functional>
#include <system_error>
#include <utility>

#include "base/fd.h"
#include "base/worker.h"

namespace r2cc::bench {

// What one pass over all connections did. Saturated: there is probably more to do at once.
enum class Pass { Done, Saturated, Moved, Idle };

class ProgressThread {
 public:
  explicit ProgressThread(int idleUs) : ended_(eventfd(0, EFD_CLOEXEC)), idleUs_(idleUs) {
    if (!ended_.valid()) throw std::system_error(errno, std::generic_category(), "eventfd");
    worker_.post([] {
      prctl(PR_SET_NAME, "r2cc_progress");
      prctl(PR_SET_TIMERSLACK, 1UL);  // a sleep of 200 us otherwise lasts 250
    });
  }
  ~ProgressThread() { stop_ = true; }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Calls `pass` until it returns Done or throws. One task at a time: collect() first.
  //
  // NCCL spins: a pass that moved nothing is followed by sched_yield(), one core a process. Where several ranks share
  // few cores that alone makes every measurement void. A pass of ours takes all that is there, so that unless it was
  // saturated nothing can be gained by looking again at once: we sleep. That costs no bandwidth while the sleep is
  // shorter than what the socket buffers hold; docs/internals/bench.md has the measurement.
  void start(std::function<Pass()> pass) {
    worker_.post([this, pass = std::move(pass)] { run(pass); });
  }
  // Readable once the task has ended.
  int endedFd() const { return ended_.get(); }
  // Waits for the end of the task and rethrows what it threw.
  void collect() {
    uint64_t ended = 0;
    while (read(ended_.get(), &ended, sizeof(ended)) < 0) {
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "read of an eventfd");
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  // Grows whenever something moved; for noticing that nothing does.
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }

 private:
  void run(const std::function<Pass()>& pass) {
    try {
      while (!stop_.load(std::memory_order_relaxed)) {
        const Pass did = pass();
        if (did == Pass::Done) break;
        if (did != Pass::Idle) moves_.fetch_add(1, std::memory_order_relaxed);
        if (did != Pass::Saturated) pause();
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
    const uint64_t one = 1;
    if (write(ended_.get(), &one, sizeof(one)) < 0) std::terminate();  // an eventfd of ours is always writable
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
  std::exception_ptr failure_;  // the task's, until it has ended
  Worker worker_;               // last: its thread ends before what it uses
};

}  // namespace r2cc::bench
