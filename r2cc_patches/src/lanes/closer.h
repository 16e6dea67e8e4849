// Frees lanes on a thread of its own. A transport's close may take seconds (soft-RoCE holds a queue pair until packets
// in the queue of a NIC without carrier are gone), and the connector has new lanes to make just then.
#pragma once

#include <memory>
#include <thread>

#include "lanes/lane.h"

namespace r2cc {

class Closer {
 public:
  Closer();
  /// Waits for what is still to be closed, but not for ever: then the thread goes on alone, and ends when all is
  /// closed. What a lane needs for that lives as long (Lane::keeps).
  ~Closer();
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  /// Nobody else may use the lane's comms any more, but for calls that Lane::users counts. In whatever stage the lane
  /// is, all of it is freed.
  void close(LanePtr lane);
  /// The end waits for little.
  void hurry() { hurries_ = true; }

 private:
  struct State;
  static void loop(const std::shared_ptr<State>& state);
  static void dispose(Lane& lane);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive us
  bool hurries_ = false;
  std::thread thread_;
};

}  // namespace r2cc
