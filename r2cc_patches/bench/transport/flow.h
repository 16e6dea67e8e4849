// One rank's connections of one flow: they move one piece of the data, and their messages wait for each other.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/programs/layout.h"
#include "bench/transport/connection.h"

namespace r2cc::bench {

using Handle = std::array<char, NCCL_NET_HANDLE_MAXSIZE>;

class Flow {
 public:
  // Its connections are numbered from `firstId`.
  Flow(const Net& net, const Options& options, const FlowPlan& plan, int firstId);
  Flow(Flow&&) = default;

  size_t connections() const { return ends_.size(); }
  const std::deque<Sender>& senders() const { return senders_; }
  const std::deque<Receiver>& receivers() const { return receivers_; }

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
  bool complete() const;
  void close();

 private:
  size_t indexOf(size_t end) const { return indices_[end]; }
  bool advanceEnd(size_t end);
  void countTurns();

  const Net& net_;
  std::vector<End> ends_;
  std::vector<size_t> indices_;  // of each end, among the senders or among the receivers
  std::deque<Sender> senders_;   // never move: the transport holds pointers into them
  std::deque<Receiver> receivers_;
  std::deque<Comm> listeners_;       // as the receivers
  std::vector<Handle> peerHandles_;  // by edge; connect() keeps its state in there between calls
  FlowProgress progress_;
  int turns_;
};

}  // namespace r2cc::bench
