// One rank's connections of one flow: they move one piece of the data, and their messages wait for each other.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/programs/layout.h"
#include "bench/transport/connection.h"

namespace r2cc::bench {

class Flow {
 public:
  // Its connections are numbered from `firstId`.
  Flow(const Net& net, const Options& options, const FlowPlan& plan, int firstId);
  Flow(Flow&&) = default;

  // In the order of the edges.
  const std::deque<Connection>& connections() const { return connections_; }

  // Starts listening; returns what the sending peers need to connect, in the order of the edges.
  std::string listen();
  // Of the sender with this edge.
  void setPeerHandle(uint32_t edge, const Handle& handle) { peerHandles_.at(edge) = handle; }
  // One non-blocking attempt at each connection that is missing. Returns how many stand.
  size_t connect();
  // Other messages over the same edges (`ends` as weave() makes them); between two iterations.
  void use(std::vector<End> ends);
  // Ends that have something to do.
  size_t working() const;
  void useBuffers(const FloatBuffer& sendData, const FloatBuffer& receiveData);

  void begin();
  // One turn: posts what can be posted, completes at most one message of each connection, so that none keeps the others
  // waiting. Returns the number of messages completed.
  size_t advance();
  // Turns of which all that comes is here.
  uint64_t turnsReceived() const { return received_; }
  // The least of that of all flows of this rank: as NCCL's kernels, whose next begins when all channels are over.
  void allowTurns(uint64_t received) { progress_.turns = std::min(sent_, received); }
  bool complete() const;
  void close();

 private:
  void countTurns();

  std::vector<End> ends_;
  std::deque<Connection> connections_;  // by end; they never move: the transport holds pointers into them
  std::vector<Handle> peerHandles_;     // by edge
  FlowProgress progress_;
  int turns_;
  uint64_t sent_ = 0, received_ = 0;  // turns of which all is sent, or here
};

}  // namespace r2cc::bench
