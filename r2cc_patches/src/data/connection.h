// What both ends of a connection have in common: lanes, the plan (which message goes to which lane), registered memory,
// and the requests NCCL holds. See send_connection.h and recv_connection.h for the two ends.
//
// Threads: NCCL's calls and the engine take `owner` before they touch plan, lanes' comms or requests, and before they
// change the lane list, which the engine alone does. Handshakes belong to the engine (under its mutex). A receiver's
// plan is shortened by NCCL's thread: there the engine takes `owner` to read it, too.
//
// Calls into a transport that may take long (InnerOps::fenceMayWait, memoryMayWait) are made with neither held: memory
// in connection_memory.cc, fences in connection.cc.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/helpers.h"
#include "base/ownership.h"
#include "data/request.h"
#include "lanes/anchors.h"
#include "lanes/connector.h"
#include "lanes/lane.h"
#include "lanes/plan.h"
#include "paths/peer.h"
#include "paths/wanted.h"
#include "record/events.h"
#include "record/health_board.h"
#include "record/recorder.h"
#include "record/tally.h"

namespace r2cc {

/// Why a connection failed, in words; empty: none did. Others that end soon after it end for the same reason.
struct FirstFailure {
  std::string why{};  // NOLINT(readability-redundant-member-init)
  int64_t at = 0;
  bool stands(int64_t now) const { return !why.empty() && now - at < kStandsNs; }
  static constexpr int64_t kStandsNs = msToNs(60000);
};

/// What the engine lends to its connections.
struct Services {
  int mode = 1;
  Connector* connector = nullptr;
  EventLog* events = nullptr;
  Flight* flight = nullptr;  // null: nothing is recorded
  Tally* tally = nullptr;
  const std::vector<LocalNic>* local = nullptr;
  const Anchors* anchors = nullptr;
  int64_t holdNs = 0;
  Distance distance;                                                  // between local NICs
  std::function<void(Helpers::Work slow, Helpers::Work then)> apart;  // `then` under the engine's mutex
  std::condition_variable* settled = nullptr;                         // with that mutex: a slow call is over
  std::function<void()> wake;                                         // thread-safe: makes the engine look at once
  std::function<void()> fetchAcks;                           // by a thread that waits for some: those that have come
  std::function<void(const Lane&, bool forGood)> misplaced;  // a lane is not on its NIC
  std::function<RunningSchedule(uint64_t asked)> schedule;   // what loads NICs unevenly on purpose
  std::function<ScheduleConnection()> scheduleConnection;    // what one is that is made now
  std::function<void(const std::string&)> warn;              // NCCL's log, level WARN
  std::function<void(const std::string&)> info;              // the same, level INFO
  std::string host;                                          // this host's name
  std::function<void()> said;            // waits until those lines are written, for a short time at most
  FirstFailure* firstFailure = nullptr;  // of all connections of the process, with the engine's mutex
};

/// A lane's turn in a call ends with the message that makes it so much, as stock's does with each: what the others have
/// received would wait in the kernel meanwhile, leave the cache, and then cost twice as much to copy.
constexpr size_t kTurnBytes = 65536;

/// Memory NCCL registered, and its handle on every lane.
struct Mr {
  void* data;
  size_t size;
  int type;
  uint64_t offset;
  Fd fd;               // our own duplicate of the DMA-BUF descriptor, or none
  bool known = false;  // NCCL has it: from now on a lane is up only with it
  bool ended = false;  // NCCL takes it back: it is registered nowhere any more
  enum class State : uint8_t { Making, There, Failed };
  struct OnLane {
    LanePtr lane;
    void* handle;
    State state;
  };
  std::vector<OnLane> lanes;
  OnLane* on(const Lane& lane);
};
using MrPtr = std::shared_ptr<Mr>;
/// Of a message whose memory is `mr`, null where the transport takes any.
inline bool inHostMemory(const void* mr) { return mr == nullptr || static_cast<const Mr*>(mr)->type == NCCL_PTR_HOST; }

/// The engine's mutex, held; left while a transport works.
using EngineLock = std::unique_lock<std::mutex>;

class Connection : public std::enable_shared_from_this<Connection> {
  // What every test of a message looks at comes first, close together.
  std::atomic<ConnectionState> state_{ConnectionState::Connecting};

 protected:
  std::atomic<bool> attention_{false};
  Ownership owner_;
  uint64_t posted_ = 0;      // messages NCCL has given us
  uint64_t nextToPost_ = 0;  // all below it are on a lane or over
  Plan plan_;
  Requests requests_;

 public:
  /// `ring`: how many messages it knows of at once, a power of two.
  Connection(const Services& services, Peer& peer, uint64_t id, void* ctx, bool sends, size_t ring);
  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const uint64_t id;
  Peer& peer;

  ncclResult_t regMr(EngineLock& engine, void* data, size_t size, int type, uint64_t offset, int fd, void** handle);
  /// Registers what there is on an anchor that came up after it. An anchor only saves time.
  void onAnchor(const LanePtr& anchor) { prepare(anchor); }
  /// It is closed next.
  void leave(const LanePtr& anchor);
  /// Never waits for the peer, but for our own lanes that may still touch the memory. Requests still using it fail the
  /// connection first.
  ncclResult_t deregMr(EngineLock& engine, void* handle);
  virtual ncclResult_t test(Request& request, int* done, int* size) = 0;
  /// The connector made the lane, or could not.
  virtual void onLaneMade(const LanePtr& lane, bool ok) = 0;

  ConnectionState state() const { return state_.load(std::memory_order_acquire); }
  /// No message will pass any more: every call returns ncclRemoteError.
  bool over() const { return state() >= ConnectionState::Closed; }
  /// The path of the newest step's first lane; null while there is no plan.
  const Path* planPath() const { return plan_.empty() ? nullptr : plan_.newest().lanes()[0].lane->path; }
  /// The transport reported an error on some lane: the engine is to look at it.
  bool attention() const { return attention_.load(std::memory_order_relaxed); }
  /// Ends the connection for good, with a line that names host, NIC and `why`. `heard`: the peer's words, in its own.
  void fail(const std::string& why, const std::vector<uint8_t>& heard = {});
  /// Fences everything and gives the lanes to the connector. After this the object may die.
  void shutdown();
  /// What the peer is told when this end is closed or given up, and whenever it asks afterwards.
  Bye bye() const;
  /// NCCL waits here and nothing comes: is the other end still there? Answered with Bye when it is not.
  virtual void ask() = 0;
  /// False when not a single message got through since the last call.
  bool movedSinceAsked() {
    const uint64_t mark = through();
    return std::exchange(mark_, mark) != mark;
  }
  /// Closed now, it ends in the middle: NCCL aborts.
  bool breaksOff() const {
    return state() == ConnectionState::Failed || outstanding_.load(std::memory_order_relaxed) > 0 ||
           wantsRoom_.load(std::memory_order_relaxed);
  }
  /// Where it is, for the status file: as of now, or of the last time that its owner was free.
  struct Seat {
    const Path* home = nullptr;
    uint32_t nics = 0;  // local NICs that its messages may use, a bit each
    bool away = false;  // some new message goes elsewhere than over home
  };
  const Seat& seat();
  /// Adds what its lanes carried to the bytes of their NICs.
  void addBytes(std::array<uint64_t, Tally::kNics>& byNic) const;
  /// NCCL waits for a message here, or the peer owes us an acknowledgement that a copy is kept for.
  virtual bool hasOutstanding() const { return outstanding_.load(std::memory_order_relaxed) > 0; }
  /// The same, or NCCL has a message that was not taken yet.
  bool isOwed() const { return hasOutstanding() || wantsRoom_.load(std::memory_order_relaxed); }
  /// There is a lane whose end would be heard. The engine alone asks.
  bool hasLaneUp() const;

 protected:
  /// The one place that changes state_; writes the `path` event.
  void setState(ConnectionState next, const std::string& cause, int64_t replayed = -1);
  /// The request of NCCL's next message, all its parts claimed; null while there would be more than
  /// NCCL_NET_MAX_REQUESTS of them.
  Request* claim(void* data, size_t size, int tag, void* mr, void* profiler);
  /// Posts what NCCL has given us below `end` to the plan's lanes, each in ascending order: a lane that takes nothing
  /// now blocks only what comes after on itself. Owner held.
  void pump(uint64_t end);
  /// The inner net's isend or irecv; leaves request.inner null when it takes nothing now.
  virtual ncclResult_t give(Lane& lane, Request& request) = 0;
  void* handleOn(const Lane& lane, void* mr) const;
  /// NCCL takes this memory away, and no request that it holds uses it. Engine's mutex held.
  virtual void onDeregister(const void* /*mr*/) {}
  /// Registers all memory on a lane whose comm was made; then, sooner or later, onPrepared.
  void prepare(const LanePtr& lane);
  /// The lane can be used: whatever was registered is registered there, too. False: it cannot.
  virtual void onPrepared(const LanePtr& lane, bool ok) = 0;
  LanePtr findLane(uint32_t laneId) const;
  void addLane(const LanePtr& lane);
  bool inPlan(const LanePtr& lane) const { return plan_.has(lane.get()); }
  /// Fences a lane and lets the connector close it; only the plan may still name it, until it is replaced there.
  /// Where a fence may wait it is over later: see fencing().
  void dropLane(const LanePtr& lane);
  void dropAll();
  /// With all lanes dropped. Whoever sees that state sees that lanes are being fenced, too.
  void endAs(ConnectionState state, const std::string& cause);
  /// Some lane that was dropped may still touch memory. The peer is told of no lost lane, nor NCCL of an error.
  bool fencing() const { return fencing_.load(std::memory_order_acquire) > 0; }
  virtual void onAllFenced() = 0;
  /// So much of dropLane as is done at once.
  void retire(const LanePtr& lane);
  std::vector<void*> takeHandles(const Lane& lane);
  /// The rest of it. Static: what was begun is brought to its end without the connection, too.
  static void fenceApart(const Services& services, const std::weak_ptr<Connection>& whose, const LanePtr& lane,
                         const std::vector<void*>& handles);
  static constexpr int64_t kFenceLimitNs = msToNs(10000);  // what needs longer than this hangs
  void failIfFenceHangs(int64_t now);
  /// What isend, irecv and test say when no message will pass any more.
  ncclResult_t overNow() const;
  void laneError(Lane& lane);
  std::string nicName(const Path* path) const;
  /// What a peer says of its end, fit for a log.
  static std::string readable(const std::vector<uint8_t>& reason);
  /// The peer's end is over, and messages are missing: by its own reason, or by that of another connection of it.
  void failAsPeer(const std::vector<uint8_t>& reason, const char* otherwise);
  /// The NICs of the newest step with their weights: "eth0:25,eth2:6".
  std::string planShares() const;
  const InnerNet& innerOf(const Path* path) const { return (*services_.local)[path->local].inner; }
  LanePtr makeLane(uint32_t laneId, Path* path);

  const Services& services_;
  void* const ctx_;
  const bool sends_;
  std::vector<LanePtr> lanes_;
  std::vector<MrPtr> mrs_;
  uint32_t epoch_ = 0;
  const Path* home_ = nullptr;
  std::atomic<int> outstanding_{0};
  std::atomic<bool> wantsRoom_{false};  // NCCL's newest message found none: it comes again
  Recorder recorder_;

 private:
  /// Messages below this are with the receiver.
  virtual uint64_t through() const = 0;
  bool post(Request& request, Lane& lane);
  // memory (connection_memory.cc)
  LanePtr lacking(const Mr& mr) const;
  ncclResult_t registerOn(EngineLock& engine, const MrPtr& mr, const LanePtr& lane);
  void begin(Mr& mr, const LanePtr& lane);
  void registered(Mr& mr, const LanePtr& lane, ncclResult_t result, void* handle);
  ncclResult_t release(EngineLock& engine, const MrPtr& mr);
  void takeOff(EngineLock& engine, const Mr::OnLane& on);
  void forgetMemory();
  void fenced();
  static void giveBack(const Services& services, const std::weak_ptr<Connection>& whose, const LanePtr& lane,
                       const std::vector<void*>& handles, bool close);
  void count(bool in);
  void tally(ConnectionState previous, ConnectionState next, const std::string& cause);
  Seat seat_;
  int64_t stoppedNs_ = 0;  // since then it carries nothing; 0: it does
  std::atomic<int> fencing_{0};
  int releasing_ = 0;  // lanes whose memory handles are on their way back, those that are fenced included
  std::atomic<int64_t> fencingSince_{0};
  bool shut_ = false;
  bool counted_ = false;  // among the peer's connections
  uint64_t mark_ = UINT64_MAX;
  std::vector<uint8_t> reason_;  // why it failed
};

}  // namespace r2cc
