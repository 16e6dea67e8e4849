#include "base/helpers.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/process_life.h"
#include "base/short_slices.h"

namespace r2cc {
namespace {
constexpr auto kHelperPatience = std::chrono::seconds(2);
constexpr size_t kMostThreads = 64;  // a lost NIC's lanes are fenced at once
}  // namespace

struct Helpers::State {
  struct Job {
    Work slow, then;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  size_t threads = 0, idle = 0;
  bool stop = false;    // when there is nothing left to do
  bool closed = false;  // to new ones
  std::mutex last;      // of a `then`, against the end
  bool ended = false;
};

Helpers::Helpers() : state_(std::make_shared<State>()) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  startThread(state_);
}

/// With the mutex held.
void Helpers::startThread(const std::shared_ptr<State>& state) {
  std::thread thread([state] { loop(state); });
  pthread_setname_np(thread.native_handle(), "r2cc-help");
  thread.detach();
  state->threads++;
}

void Helpers::run(Work slow, Work then) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->closed) return;
  state_->jobs.push_back({std::move(slow), std::move(then)});
  if (state_->jobs.size() > state_->idle && state_->threads < kMostThreads) {
    try {
      return startThread(state_);
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): the others will do it, later
    }
  }
  state_->changed.notify_one();
}

void Helpers::loop(const std::shared_ptr<State>& state) {
  askForShortSlices();
  std::unique_lock<std::mutex> lock(state->mutex);
  while (true) {
    if (state->jobs.empty()) {
      // What is running may still bring more.
      if (state->stop && state->idle + 1 == state->threads) break;
      state->idle++;
      state->changed.wait(lock);
      state->idle--;
      continue;
    }
    State::Job job = std::move(state->jobs.front());
    state->jobs.pop_front();
    lock.unlock();
    job.slow();
    {
      const std::lock_guard<std::mutex> last(state->last);
      if (!state->ended && job.then) job.then();
    }
    job = {};  // before it is said to be over
    lock.lock();
  }
  state->threads--;
  state->changed.notify_all();
}

void Helpers::end() {
  if (inChild()) return;
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
    (void)state_->changed.wait_for(lock, kHelperPatience, [this] { return state_->threads == 0; });
    state_->closed = true;
    state_->jobs.clear();
  }
  const std::lock_guard<std::mutex> last(state_->last);
  state_->ended = true;
}

}  // namespace r2cc
