// What both ends of a connection have in common: lanes, the plan (which message goes to which lane), registered memory,
// and the requests NCCL holds. See send_connection.h and recv_connection.h for the two ends.
//
// Threads: NCCL's calls and the engine take `owner` before they touch plan, lanes' comms or requests. The lane list
// itself and everything about handshakes belong to the engine (under its mutex).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "connector.h"
#include "events.h"
#include "lane.h"
#include "ownership.h"
#include "peer.h"

namespace r2cc {

enum class ConnectionState : uint8_t {
  Connecting,  // no lane yet
  Active,      // messages flow
  Frozen,      // lanes fenced; a fresh lane is being made
  Exchanging,  // sender: waiting for the receiver's count
  Holding,     // no path at all; waiting for one to return
  Closed,      // the peer closed it and nothing is missing
  Failed,      // given up, with a reason
};
const char* name(ConnectionState state);

/// What the engine lends to its connections.
struct Services {
  InnerNet inner{};
  Connector* connector = nullptr;
  EventLog* events = nullptr;
  const std::vector<LocalNic>* local = nullptr;
  int64_t holdNs = 0;
  std::function<void()> wake;                    // thread-safe: makes the engine look at once
  std::function<void(const std::string&)> warn;  // NCCL's log, level WARN
};

class Connection;

/// One isend or irecv. NCCL's request pointer is the address of one of these.
struct Request {
  Connection* connection = nullptr;
  uint64_t number = 0;
  void* data = nullptr;
  size_t size = 0;
  int tag = 0;
  void* mr = nullptr;
  void* profiler = nullptr;
  void* inner = nullptr;  // the inner net's request while posted
  bool used = false;      // NCCL holds it
  bool finished = false;  // sender: the inner send is over; receiver: the message is here
};

/// Memory NCCL registered, and its handle on every lane.
struct Mr {
  void* data;
  size_t size;
  int type;
  uint64_t offset;
  int fd;  // our own duplicate of the DMA-BUF descriptor, or -1
  struct OnLane {
    const Lane* lane;
    void* handle;
  };
  std::vector<OnLane> lanes;
};

class Connection {
 public:
  Connection(const Services& services, Peer& peer, uint64_t id, void* ctx, bool sends);
  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const uint64_t id;
  Peer& peer;

  ncclResult_t regMr(void* data, size_t size, int type, uint64_t offset, int fd, void** handle);
  /// Never fails and never waits for the peer. Requests still using the memory fail the connection first.
  ncclResult_t deregMr(void* handle);
  virtual ncclResult_t test(Request& request, int* done, int* size) = 0;
  /// The connector made the lane, or could not.
  virtual void onLaneMade(const LanePtr& lane, bool ok) = 0;

  ConnectionState state() const { return state_.load(std::memory_order_acquire); }
  /// No message will pass any more: every call returns ncclRemoteError.
  bool over() const { return state() >= ConnectionState::Closed; }
  /// The transport reported an error on some lane: the engine is to look at it.
  bool attention() const { return attention_.load(std::memory_order_relaxed); }
  /// Ends the connection for good; `why` names host, NIC and cause.
  void fail(const std::string& why);
  /// Fences everything and gives the lanes to the connector. After this the object may die.
  void shutdown();
  /// What the peer is told when this end is closed or given up, and whenever it asks afterwards.
  virtual Bye bye() const = 0;
  /// NCCL waits here and nothing comes: is the other end still there? Answered with Bye when it is not.
  virtual void ask() = 0;
  /// False when not a single message got through since the last call.
  bool movedSinceAsked() {
    const uint64_t mark = through();
    return std::exchange(mark_, mark) != mark;
  }
  bool hasOutstanding() const { return outstanding_.load(std::memory_order_relaxed) > 0; }

 protected:
  struct PlanStep {
    uint64_t from;  // first message of this step
    LanePtr lane;
  };

  /// The one place that changes state_; writes the `path` event.
  void setState(ConnectionState next, const std::string& cause, int64_t replayed = -1);
  /// The next message's request; null while NCCL still holds the one NCCL_NET_MAX_REQUESTS before it.
  Request* claim(void* data, size_t size, int tag, void* mr, void* profiler);
  Request& slot(uint64_t number) { return requests_[number % NCCL_NET_MAX_REQUESTS]; }
  Lane* laneFor(uint64_t number) const;
  void* handleOn(const Lane& lane, void* mr) const;
  /// Registers all memory on a lane that has just come up. False: the lane cannot be used.
  bool registerOn(const LanePtr& lane);
  LanePtr findLane(uint32_t laneId) const;
  bool inPlan(const LanePtr& lane) const;
  /// Fences a lane and lets the connector close it; forgets it everywhere.
  void dropLane(LanePtr lane);
  void dropPlan();
  void dropAll();
  void laneError(Lane& lane);
  /// Removes steps whose messages are all through (`through`: all below it are). Their lanes are drained.
  void trimPlan(uint64_t through);
  const Path* planPath() const { return plan_.empty() ? nullptr : plan_.back().lane->path; }
  std::string nicName(const Path* path) const;

  const Services& services_;
  void* const ctx_;
  const bool sends_;
  Ownership owner_;
  std::vector<PlanStep> plan_;
  std::vector<LanePtr> lanes_;
  std::vector<std::unique_ptr<Mr>> mrs_;
  Request requests_[NCCL_NET_MAX_REQUESTS];
  uint64_t posted_ = 0;      // messages NCCL has given us
  uint64_t nextToPost_ = 0;  // first message not yet on a lane
  uint32_t epoch_ = 0;
  const Path* home_ = nullptr;
  std::atomic<int> outstanding_{0};
  std::atomic<bool> attention_{false};

 private:
  /// Messages below this are with the receiver.
  virtual uint64_t through() const = 0;
  void unregister(Mr& mr);
  uint64_t mark_ = UINT64_MAX;
  std::atomic<ConnectionState> state_{ConnectionState::Connecting};
};

}  // namespace r2cc
