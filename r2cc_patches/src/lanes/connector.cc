#include "lanes/connector.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/short_slices.h"

namespace r2cc {
namespace {
using std::chrono::microseconds;
constexpr auto kPoll = microseconds(200);
constexpr int kRests = 7;  // times what asking took: a job that connects thousands must not spend its time on that
constexpr auto kPollALane = microseconds(100);
constexpr auto kMostPoll = microseconds(50000);
}  // namespace

class Connector::Worker {
 public:
  Worker(const Done& done, Closer& closer, std::atomic<uint64_t>& refused)
      : done_(done), closer_(closer), refused_(refused), thread_([this] { loop(); }) {
    pthread_setname_np(thread_.native_handle(), "r2cc-connect");
  }
  ~Worker() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void make(LanePtr lane) { add(incoming_, std::move(lane)); }
  void close(LanePtr lane) { add(closing_, std::move(lane)); }

 private:
  void add(std::vector<LanePtr>& queue, LanePtr lane) {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue.push_back(std::move(lane));
    wake_.notify_one();
  }
  void loop();
  /// True when the lane needs no more work: made, failed, or closed meanwhile.
  bool advance(const LanePtr& lane);
  static ncclResult_t connect(Lane& lane, void** comm);
  ncclResult_t accept(const Lane& lane, void** comm);

  const Done& done_;
  Closer& closer_;
  std::atomic<uint64_t>& refused_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<LanePtr> incoming_;
  std::vector<LanePtr> closing_;
  bool stop_ = false;
  std::thread thread_;
};

void Connector::Worker::loop() {
  askForShortSlices();
  std::vector<LanePtr> making;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    making.insert(making.end(), incoming_.begin(), incoming_.end());
    incoming_.clear();
    const std::vector<LanePtr> closing = std::exchange(closing_, {});
    lock.unlock();
    const int64_t began = nowNs();
    for (const LanePtr& lane : closing) {
      making.erase(std::remove(making.begin(), making.end(), lane), making.end());
      closer_.close(lane);
    }
    making.erase(std::remove_if(making.begin(), making.end(), [this](const LanePtr& l) { return advance(l); }),
                 making.end());
    lock.lock();
    if (!incoming_.empty() || !closing_.empty()) continue;
    if (stop_) return;
    if (making.empty()) {
      wake_.wait(lock);
    } else {
      const microseconds took((nowNs() - began) / 1000);  // others' time, too: no longer than for so many lanes
      const microseconds rest = std::min<microseconds>(took * kRests, making.size() * kPollALane);
      wake_.wait_for(lock, std::clamp<microseconds>(rest, kPoll, kMostPoll));
    }
  }
}

bool Connector::Worker::advance(const LanePtr& lane) {
  if (lane->state != LaneState::Connecting) return true;  // its close() is in the queue
  void* comm = nullptr;
  const ncclResult_t result = lane->sends ? connect(*lane, &comm) : accept(*lane, &comm);
  if (result == ncclSuccess && comm == nullptr) return false;
  if (result == ncclSuccess) lane->comm = comm;
  if (result == ncclSuccess && lane->inner.ops->tune != nullptr) lane->inner.ops->tune(comm);
  if (result == ncclSuccess && lane->inner.ops->place != nullptr) {
    lane->placed = lane->inner.ops->place(comm, lane->sends);
  }
  const auto unconfirmed = lane->inner.ops->unconfirmed;
  lane->tells = result == ncclSuccess && unconfirmed != nullptr && unconfirmed(comm) >= 0;
  if (result == ncclSuccess && !lane->sends) {  // one lane, one accept
    lane->inner.ops->cancelListen(lane->listenComm);
    lane->listenComm = nullptr;
  }
  done_(lane, result == ncclSuccess);
  return true;
}

ncclResult_t Connector::Worker::connect(Lane& lane, void** comm) {
  const InnerOps& ops = *lane.inner.ops;
  if (ops.connect != nullptr) return ops.connect(lane.dev, lane.handle.data(), comm);
  return lane.inner.net->connect(lane.ctx, lane.dev, lane.handle.data(), comm, nullptr);
}

ncclResult_t Connector::Worker::accept(const Lane& lane, void** comm) {
  if (lane.inner.ops->accept == nullptr) return lane.inner.net->accept(lane.listenComm, comm, nullptr);
  uint64_t refused = 0;
  const ncclResult_t result = lane.inner.ops->accept(lane.listenComm, comm, &refused);
  refused_ += refused;
  return result;
}

Connector::Connector(Done done) : done_(std::move(done)) {}

Connector::~Connector() = default;

Connector::Worker& Connector::workerFor(const ncclNet_t* net, int dev) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Worker>& worker = workers_[{net, dev}];
  if (worker == nullptr) worker = std::make_unique<Worker>(done_, closer_, refused_);
  return *worker;
}

void Connector::make(LanePtr lane) {
  lane->state = LaneState::Connecting;
  Worker& worker = workerFor(lane->inner.net, lane->dev);
  worker.make(std::move(lane));
}

void Connector::close(LanePtr lane) {
  lane->state = LaneState::Closed;
  Worker& worker = workerFor(lane->inner.net, lane->dev);
  worker.close(std::move(lane));
}

}  // namespace r2cc
