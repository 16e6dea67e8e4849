// Runs what may be slow, in order, on a thread of its own: made with the first job, gone with this object.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/signals.h"

namespace r2cc {

class Worker {
 public:
  Worker() = default;
  /// Waits for the job that runs; those that did not begin are dropped.
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Jobs throw nothing. Throws std::system_error where there can be no thread.
  void post(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      if (!thread_.joinable()) {
        const SignalsBlocked blocked;
        thread_ = std::thread([this] { run(); });
      }
      jobs_.push_back(std::move(job));
    }
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace r2cc
