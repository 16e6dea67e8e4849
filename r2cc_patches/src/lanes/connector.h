// Makes inner comms on threads of its own, and has them closed on another: inner connects may sleep, closes may wait,
// and neither may ever hold up NCCL's progress thread, the engine, or the other. A device has its own thread: while the
// kernel looks for a neighbour behind a black hole, lanes on other NICs are made.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "lanes/closer.h"
#include "lanes/lane.h"

namespace r2cc {

class Connector {
 public:
  /// done(lane, ok) is called from a connector's thread for every lane given to make(), unless it was closed first.
  using Done = std::function<void(const LanePtr&, bool ok)>;
  explicit Connector(Done done);
  /// Closes all that it was told to close, then ends.
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Starts a device's thread before it is needed.
  void prepare(const ncclNet_t* net, int dev) { (void)workerFor(net, dev); }
  /// Connects (sends) or accepts (receives) until the comm is there.
  void make(LanePtr lane);
  /// Frees a lane in any state. The caller has fenced it, or never used it.
  void close(LanePtr lane);
  /// Its end waits for little: NCCL aborts.
  void hurry() { closer_.hurry(); }
  /// Strangers who connected to a lane's listen.
  uint64_t refused() const { return refused_; }

 private:
  class Worker;
  Worker& workerFor(const ncclNet_t* net, int dev);

  const Done done_;
  std::atomic<uint64_t> refused_{0};
  Closer closer_;
  std::mutex mutex_;
  std::map<std::pair<const ncclNet_t*, int>, std::unique_ptr<Worker>>
      workers_;  // by net and device; end before closer_
};

}  // namespace r2cc
