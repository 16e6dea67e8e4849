#include "bench/transport/flow.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace r2cc::bench {

Flow::Flow(const Net& net, const Options& options, const FlowPlan& plan, int firstId)
    : ends_(weave(plan.sequence, options.rank, options.inARow)),
      peerHandles_(plan.sequence.edges.size()),
      turns_(options.inARow) {
  for (const End& end : ends_) {
    const ConnectionId id{firstId++, end.peer, plan.channel, plan.nics[end.edge]};
    connections_.emplace_back(net, id, options, end.sends);
  }
  progress_.done.resize(ends_.size());
}

std::string Flow::listen() {
  std::string handles;
  for (Connection& connection : connections_) {
    if (connection.sends()) continue;
    const Handle handle = connection.listen();
    handles.append(handle.data(), handle.size());
  }
  return handles;
}

size_t Flow::connect() {
  size_t standing = 0;
  for (size_t end = 0; end < ends_.size(); end++) {
    standing += connections_[end].connect(peerHandles_[ends_[end].edge]) ? 1 : 0;
  }
  return standing;
}

void Flow::use(std::vector<End> ends) {
  if (ends.size() != ends_.size()) throw std::logic_error("a flow's messages are for other connections");
  ends_ = std::move(ends);
}

size_t Flow::working() const {
  return static_cast<size_t>(
      std::count_if(ends_.begin(), ends_.end(), [](const End& end) { return !end.messages.empty(); }));
}

void Flow::useBuffers(const FloatBuffer& sendData, const FloatBuffer& receiveData) {
  for (Connection& connection : connections_) connection.useBuffer(connection.sends() ? sendData : receiveData);
}

void Flow::begin() {
  for (size_t end = 0; end < ends_.size(); end++) connections_[end].begin(ends_[end].messages);
  std::fill(progress_.done.begin(), progress_.done.end(), 0);
  progress_.turns = 0;
  countTurns();
}

// Receives first: a chunk that has just arrived is passed on in the same turn.
size_t Flow::advance() {
  size_t completed = 0;
  for (const bool sends : {false, true}) {
    for (size_t end = 0; end < ends_.size(); end++) {
      uint64_t& done = progress_.done[end];
      if (ends_[end].sends != sends || done == ends_[end].messages.size()) continue;
      if (!connections_[end].advance(progress_)) continue;
      done++;
      completed++;
    }
  }
  if (turns_ > 1 && completed > 0) countTurns();
  return completed;
}

void Flow::countTurns() {
  sent_ = received_ = static_cast<uint64_t>(turns_);
  for (size_t end = 0; end < ends_.size(); end++) {
    const uint64_t perTurn = ends_[end].messages.size() / static_cast<uint64_t>(turns_);
    uint64_t& over = ends_[end].sends ? sent_ : received_;
    if (perTurn > 0) over = std::min(over, progress_.done[end] / perTurn);
  }
}

bool Flow::complete() const {
  for (size_t end = 0; end < ends_.size(); end++) {
    if (progress_.done[end] < ends_[end].messages.size()) return false;
  }
  return true;
}

void Flow::close() {
  for (const bool sends : {true, false}) {
    for (Connection& connection : connections_) {
      if (connection.sends() == sends) connection.close();
    }
  }
}

}  // namespace r2cc::bench
