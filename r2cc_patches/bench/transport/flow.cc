#include "bench/transport/flow.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace r2cc::bench {
namespace {

int deviceOf(const Net& net, int nic) { return net.nics()[static_cast<size_t>(nic)].device; }

}  // namespace

Flow::Flow(const Net& net, const Options& options, const FlowPlan& plan, int firstId)
    : net_(net),
      ends_(weave(plan.sequence, options.rank, options.inARow)),
      peerHandles_(plan.sequence.edges.size()),
      turns_(options.inARow) {
  for (const End& end : ends_) {
    const ConnectionId id{firstId++, end.peer, plan.channel, plan.nics[end.edge], plan.part};
    if (end.sends) {
      indices_.push_back(senders_.size());
      senders_.emplace_back(net, id, options.slots, options.rank);
    } else {
      indices_.push_back(receivers_.size());
      receivers_.emplace_back(net, id, options.slots, options.chunkBytes);
      listeners_.emplace_back(net, CommKind::Listen, id.peer, id.id);
    }
  }
  progress_.done.resize(ends_.size());
}

std::string Flow::listen() {
  std::string handles;
  for (size_t i = 0; i < receivers_.size(); i++) {
    Handle handle{};
    const ConnectionId& id = receivers_[i].id();
    checkNet(net_.table().listen(net_.context(), deviceOf(net_, id.nic), handle.data(), listeners_[i].slot()), "listen",
             id.peer, id.id);
    handles.append(handle.data(), handle.size());
  }
  return handles;
}

size_t Flow::connect() {
  ncclNetDeviceHandle_t* noDevice = nullptr;
  size_t standing = 0;
  for (size_t end = 0; end < ends_.size(); end++) {
    Comm& comm = ends_[end].sends ? senders_[indexOf(end)].comm() : receivers_[indexOf(end)].comm();
    const ConnectionId& id = ends_[end].sends ? senders_[indexOf(end)].id() : receivers_[indexOf(end)].id();
    if (!comm.open() && ends_[end].sends) {
      checkNet(net_.table().connect(net_.context(), deviceOf(net_, id.nic), peerHandles_[ends_[end].edge].data(),
                                    comm.slot(), &noDevice),
               "connect", id.peer, id.id);
    } else if (!comm.open()) {
      Comm& listener = listeners_[indexOf(end)];
      checkNet(net_.table().accept(listener.get(), comm.slot(), &noDevice), "accept", id.peer, id.id);
      if (comm.open()) listener.close();
    }
    standing += comm.open() ? 1 : 0;
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
  for (Sender& sender : senders_) sender.useBuffer(sendData);
  for (Receiver& receiver : receivers_) receiver.useBuffer(receiveData);
}

void Flow::begin() {
  for (size_t end = 0; end < ends_.size(); end++) {
    if (ends_[end].sends) {
      senders_[indexOf(end)].begin(ends_[end].messages);
    } else {
      receivers_[indexOf(end)].begin(ends_[end].messages);
    }
  }
  std::fill(progress_.done.begin(), progress_.done.end(), 0);
  progress_.turns = 0;
}

// Receives first: a chunk that has just arrived is passed on in the same turn.
size_t Flow::advance() {
  size_t completed = 0;
  for (const bool sends : {false, true}) {
    for (size_t end = 0; end < ends_.size(); end++) {
      if (ends_[end].sends != sends || progress_.done[end] == ends_[end].messages.size()) continue;
      completed += advanceEnd(end) ? 1 : 0;
    }
  }
  if (turns_ > 1 && completed > 0) countTurns();
  return completed;
}

bool Flow::advanceEnd(size_t end) {
  const bool moved =
      ends_[end].sends ? senders_[indexOf(end)].advance(progress_) : receivers_[indexOf(end)].advance(progress_);
  progress_.done[end] += moved ? 1 : 0;
  return moved;
}

// As NCCL does it: the next begins when all that was sent is over, and all that came is here.
void Flow::countTurns() {
  progress_.turns = static_cast<uint64_t>(turns_);
  for (size_t end = 0; end < ends_.size(); end++) {
    const uint64_t perTurn = ends_[end].messages.size() / static_cast<uint64_t>(turns_);
    if (perTurn > 0) progress_.turns = std::min(progress_.turns, progress_.done[end] / perTurn);
  }
}

bool Flow::complete() const {
  for (size_t end = 0; end < ends_.size(); end++) {
    if (progress_.done[end] < ends_[end].messages.size()) return false;
  }
  return true;
}

void Flow::close() {
  for (Sender& sender : senders_) sender.comm().close();
  for (Receiver& receiver : receivers_) receiver.comm().close();
  for (Comm& listener : listeners_) listener.close();
}

}  // namespace r2cc::bench
