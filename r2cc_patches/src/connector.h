// Makes and closes inner comms on a thread of its own: inner connects may sleep, closes may wait, and neither may ever
// hold up NCCL's progress thread or the engine.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "lane.h"

namespace r2cc {

class Connector {
 public:
  /// done(lane, ok) is called from the connector's thread for every lane given to make(), unless it was closed first.
  using Done = std::function<void(const LanePtr&, bool ok)>;
  explicit Connector(Done done);
  /// Closes all that it was told to close, then ends.
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Connects (sends) or accepts (receives) until the comm is there.
  void make(LanePtr lane);
  /// Frees a lane in any state. The caller has fenced it, or never used it.
  void close(LanePtr lane);

 private:
  void loop();
  /// True when the lane needs no more work: made, failed, or closed meanwhile.
  bool advance(const LanePtr& lane);
  static void dispose(Lane& lane);

  const Done done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<LanePtr> incoming_;
  std::vector<LanePtr> closing_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace r2cc
