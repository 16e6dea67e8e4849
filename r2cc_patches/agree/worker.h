// Runs what may be slow, in order, on a thread of its own: made with the first job, gone with this object.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace r2cc::agree {

class Worker {
 public:
  Worker() = default;
  /// Waits for the job that runs; those that did not begin are dropped.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Jobs throw nothing.
  void post(std::function<void()> job);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace r2cc::agree
