#include "record/scribe.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "base/process_life.h"
#include "base/signals.h"

namespace r2cc {

struct Scribe::State {
  struct Item {
    std::shared_ptr<const Write> to;
    std::string text;
  };
  explicit State(Missing missing) : missing(std::move(missing)) {}
  const Missing missing;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  size_t bytes = 0;  // of the items, and of the one that is being written
  bool writing = false;
  uint64_t lost = 0;  // lines, since the last that had room
  std::shared_ptr<const Write> lostTo;
  bool stop = false, done = false;

  void push(const std::shared_ptr<const Write>& to, std::string text) {
    bytes += text.size();
    items.push_back({to, std::move(text)});
  }
  void tellLost() {
    if (lost > 0) push(lostTo, missing(std::exchange(lost, 0)));
  }
};

Scribe::Scribe(const char* thread, Missing missing) : state_(std::make_shared<State>(std::move(missing))) {
  const SignalsBlocked blocked;  // SIGPIPE above all: a reader that has gone away must not end the program
  thread_ = std::thread([state = state_] { loop(state); });
  pthread_setname_np(thread_.native_handle(), thread);
}

Scribe::~Scribe() {
  if (inChild() || !end()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

/// False: it hangs.
bool Scribe::end() {
  (void)flush(kPatienceNs);
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  return !state_->writing;
}

Scribe::Write Scribe::through(Write to) {
  return [state = state_, to = std::make_shared<const Write>(std::move(to))](const std::string& text) {
    add(*state, to, text);
  };
}

void Scribe::add(State& state, const std::shared_ptr<const Write>& to, const std::string& text) {
  if (inChild()) return;  // the mutex may be held by a thread that is not here
  std::unique_lock<std::mutex> lock(state.mutex);
  if (state.done) {
    lock.unlock();
    return (*to)(text);
  }
  if (state.bytes + text.size() > kMostBytes) {
    state.lost += static_cast<uint64_t>(std::max<std::ptrdiff_t>(1, std::count(text.begin(), text.end(), '\n')));
    state.lostTo = to;
    return;
  }
  state.tellLost();
  state.push(to, text);
  state.changed.notify_all();
}

bool Scribe::flush(int64_t limitNs) {
  if (inChild()) return true;
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->changed.wait_for(lock, std::chrono::nanoseconds(limitNs),
                                  [this] { return state_->items.empty() && !state_->writing && state_->lost == 0; });
}

void Scribe::loop(const std::shared_ptr<State>& state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  while (!state->stop) {
    if (state->items.empty()) state->tellLost();
    if (state->items.empty()) {
      state->changed.notify_all();
      state->changed.wait(lock);
      continue;
    }
    const State::Item item = std::move(state->items.front());
    state->items.pop_front();
    state->writing = true;
    lock.unlock();
    (*item.to)(item.text);
    lock.lock();
    state->writing = false;
    state->bytes -= item.text.size();
  }
  state->done = true;
}

}  // namespace r2cc
