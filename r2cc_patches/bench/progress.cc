#include "progress.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

#include <cerrno>
#include <system_error>

namespace r2cc::bench {
void ProgressThread::pause() const {
  if (idleUs_ == 0) {
    sched_yield();
    return;
  }
  const timespec time{idleUs_ / 1'000'000, (idleUs_ % 1'000'000) * 1000L};
  nanosleep(&time, nullptr);
}

ProgressThread::ProgressThread(int idleUs) : ended_(eventfd(0, EFD_CLOEXEC)), idleUs_(idleUs) {
  if (!ended_.valid()) throw std::system_error(errno, std::generic_category(), "eventfd");
  thread_ = std::thread([this] { run(); });
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  wake_.notify_one();
  thread_.join();
}

void ProgressThread::start(std::function<Pass()> pass) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    task_ = std::move(pass);
  }
  wake_.notify_one();
}

void ProgressThread::collect() {
  uint64_t ended = 0;
  while (read(ended_.get(), &ended, sizeof(ended)) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "read of an eventfd");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

std::exception_ptr ProgressThread::runTask() {
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

void ProgressThread::run() {
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

}  // namespace r2cc::bench
