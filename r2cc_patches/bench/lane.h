// A lane: one connection to a peer and one from a peer, on the same NIC, that move one region of the data.
#pragma once

#include <array>
#include <vector>

#include "connection.h"
#include "options.h"
#include "schedule.h"

namespace r2cc::bench {

using Handle = std::array<char, NCCL_NET_HANDLE_MAXSIZE>;

// Where a lane stands in the plan; the same numbers on every rank.
struct LanePlace {
  int distance;  // sends to rank + distance, receives from rank - distance
  int channel;
  int share;  // which of the channel's connections to this peer
};

// All lanes in the order in which handles are exchanged.
std::vector<LanePlace> lanePlaces(const Options& options);

// Elements of `options.bytes` that a lane sends and receives in one iteration.
LaneSchedule scheduleOf(const Options& options, const LanePlace& place);

class Lane {
 public:
  Lane(const Net& net, const Options& options, const LanePlace& place, int index);

  const LanePlace& place() const { return place_; }
  const Sender& sender() const { return sender_; }
  const Receiver& receiver() const { return receiver_; }

  // Starts listening; returns what the sending peer needs to connect.
  Handle listen();
  void setPeerHandle(const Handle& handle) { peerHandle_ = handle; }
  // One non-blocking attempt at what is missing. True once both connections stand.
  bool connect();
  void useBuffers(const FloatBuffer& sendData, const FloatBuffer& receiveData);

  void begin();
  // One turn: posts what can be posted, completes at most one message in each direction, so that no lane keeps the
  // others waiting. Returns the number of messages completed.
  size_t advance();
  bool complete() const { return sender_.complete() && receiver_.complete(); }
  void close();

 private:
  const Net& net_;
  LanePlace place_;
  LaneSchedule schedule_;
  Sender sender_;
  Receiver receiver_;
  Comm listener_;
  Handle peerHandle_{};  // connect() keeps its state in here between calls
};

}  // namespace r2cc::bench
