#include "connector.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace r2cc {
namespace {
constexpr auto kPoll = std::chrono::microseconds(200);
}

Connector::Connector(Done done) : done_(std::move(done)), thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), "r2cc-connect");
}

Connector::~Connector() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Connector::make(LanePtr lane) {
  lane->state = LaneState::Connecting;
  const std::lock_guard<std::mutex> lock(mutex_);
  incoming_.push_back(std::move(lane));
  wake_.notify_one();
}

void Connector::close(LanePtr lane) {
  lane->state = LaneState::Closed;
  const std::lock_guard<std::mutex> lock(mutex_);
  closing_.push_back(std::move(lane));
  wake_.notify_one();
}

void Connector::loop() {
  std::vector<LanePtr> making;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    making.insert(making.end(), incoming_.begin(), incoming_.end());
    incoming_.clear();
    const std::vector<LanePtr> closing = std::exchange(closing_, {});
    lock.unlock();
    for (const LanePtr& lane : closing) {
      making.erase(std::remove(making.begin(), making.end(), lane), making.end());
      dispose(*lane);
    }
    making.erase(std::remove_if(making.begin(), making.end(), [this](const LanePtr& l) { return advance(l); }),
                 making.end());
    lock.lock();
    if (!incoming_.empty() || !closing_.empty()) continue;
    if (stop_) return;
    if (making.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, kPoll);
    }
  }
}

bool Connector::advance(const LanePtr& lane) {
  if (lane->state != LaneState::Connecting) return true;  // its close() is in the queue
  const ncclNet_t& net = *lane->inner.net;
  void* comm = nullptr;
  const ncclResult_t result = lane->sends ? net.connect(lane->ctx, lane->dev, lane->handle.data(), &comm, nullptr)
                                          : net.accept(lane->listenComm, &comm, nullptr);
  if (result == ncclSuccess && comm == nullptr) return false;
  if (result == ncclSuccess) lane->comm = comm;
  if (result == ncclSuccess && !lane->sends) {  // one lane, one accept
    lane->inner.ops->cancelListen(lane->listenComm);
    lane->listenComm = nullptr;
  }
  done_(lane, result == ncclSuccess);
  return true;
}

void Connector::dispose(Lane& lane) {
  const ncclNet_t& net = *lane.inner.net;
  if (lane.comm != nullptr) {
    lane.inner.ops->fence(lane.comm);
    (void)(lane.sends ? net.closeSend(lane.comm) : net.closeRecv(lane.comm));
  } else if (lane.sends) {
    lane.inner.ops->cancelConnect(lane.handle.data());
  }
  if (lane.listenComm != nullptr) lane.inner.ops->cancelListen(lane.listenComm);
  lane.comm = lane.listenComm = nullptr;
}

}  // namespace r2cc
