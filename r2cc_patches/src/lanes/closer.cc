#include "lanes/closer.h"
#include "base/short_slices.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace r2cc {
namespace {
constexpr auto kPatience = std::chrono::milliseconds(2000), kLittle = std::chrono::milliseconds(150);
// Nothing waits for a lane to be freed, and when many are lost at once their connections need the CPU to go on.
constexpr auto kLater = std::chrono::milliseconds(100);
constexpr auto kInUse = std::chrono::milliseconds(1);
}  // namespace

struct Closer::State {
  std::mutex mutex;
  std::condition_variable changed;
  struct Given {
    LanePtr lane;
    std::chrono::steady_clock::time_point at;
  };
  std::deque<Given> lanes;
  bool stop = false;
  bool done = false;
  bool alone = false;  // nobody waits any more
};

Closer::Closer() : state_(std::make_shared<State>()), thread_([state = state_] { loop(state); }) {
  pthread_setname_np(thread_.native_handle(), "r2cc-close");
}

Closer::~Closer() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  const bool done = state_->changed.wait_for(lock, hurries_ ? kLittle : kPatience, [this] { return state_->done; });
  state_->alone = !done;
  lock.unlock();
  if (done) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Closer::close(LanePtr lane) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->lanes.push_back({std::move(lane), std::chrono::steady_clock::now()});
  if (state_->lanes.size() == 1) state_->changed.notify_all();  // else it knows when the first is due
}

void Closer::loop(const std::shared_ptr<State>& state) {
  askForShortSlices();
  std::unique_lock<std::mutex> lock(state->mutex);
  while (!state->stop || !state->lanes.empty()) {
    if (state->lanes.empty()) {
      state->changed.wait(lock);
      continue;
    }
    if (const auto due = state->lanes.front().at + kLater; !state->stop && std::chrono::steady_clock::now() < due) {
      state->changed.wait_until(lock, due);
      continue;
    }
    LanePtr lane = std::move(state->lanes.front().lane);
    state->lanes.pop_front();
    if (lane->users > 0) {
      state->lanes.push_back({lane, std::chrono::steady_clock::now()});
      state->changed.wait_for(lock, state->alone ? kLater : kInUse);
      continue;
    }
    lock.unlock();
    dispose(*lane);
    lane.reset();  // the last one may end the net that it needed
    lock.lock();
  }
  state->done = true;
  state->changed.notify_all();
}

void Closer::dispose(Lane& lane) {
  const ncclNet_t& net = *lane.inner.net;
  if (lane.comm != nullptr) {
    if (!lane.inOrder) lane.inner.ops->fence(lane.comm);
    (void)(lane.sends ? net.closeSend(lane.comm) : net.closeRecv(lane.comm));
  } else if (lane.sends) {
    lane.inner.ops->cancelConnect(lane.handle.data());
  }
  if (lane.listenComm != nullptr) lane.inner.ops->cancelListen(lane.listenComm);
  lane.comm = lane.listenComm = nullptr;
}

}  // namespace r2cc
