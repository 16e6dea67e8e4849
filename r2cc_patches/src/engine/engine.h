// One per process: the thread that watches links, answers datagrams, judges paths and moves connections, and NCCL's
// calls that are not about a message. What they do is in the parts; here are the thread, the mutex and the order.
//
// All parts are under one mutex, which NCCL's threads take only to listen, connect, accept, register and close, and
// without waiting for it to fetch acknowledgements. Nothing waits while it is held: what may block (the log, event
// lines, dumps, inner connects, closes, fences and registrations) is done by threads of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/helpers.h"
#include "engine/admission.h"
#include "engine/config.h"
#include "engine/connections.h"
#include "engine/listeners.h"
#include "engine/messages.h"
#include "engine/refusals.h"
#include "health/announcer.h"
#include "health/judge.h"
#include "health/locator.h"
#include "health/nic_links.h"
#include "health/nic_report.h"
#include "health/rates.h"
#include "health/second_way.h"
#include "lanes/anchors.h"
#include "lanes/connector.h"
#include "paths/shared.h"
#include "paths/streams.h"
#include "record/scribe.h"
#include "record/tally.h"
#include "status/drains.h"
#include "status/status.h"
#include "wire/handle.h"

namespace r2cc {

class Engine {  // NOLINT(clang-analyzer-optin.performance.Padding): members stand by what they are for
 public:
  using Warn = Shared::Say;
  /// `warn` and `info` may block: they are called on a thread of their own. `nics`: the inner net's devices in order,
  /// side-only interfaces behind them. `filter`: see SideChannel; for tests.
  Engine(const Config& config, const InnerNet& inner, std::vector<LocalNic> nics, Warn warn,
         SideChannel::Filter filter = nullptr, Warn info = nullptr, Distance distance = nullptr,
         HealthBoard* health = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // NCCL's side; none of these waits for the network.
  ncclResult_t listen(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t connect(void* ctx, int dev, void* handle, void** sendComm);
  ncclResult_t accept(void* listenComm, void** recvComm);
  ncclResult_t regMr(void* comm, void* data, size_t size, int type, uint64_t offset, int fd, void** handle);
  ncclResult_t deregMr(void* comm, void* handle);
  void closeSend(void* comm);
  void closeRecv(void* comm);
  void closeListen(void* listenComm);

  /// The log's level WARN, for whoever shares it. Never waits; may outlive the engine.
  const Warn& warner() const { return shared_.warn; }
  /// NCCL's user aborts: an engine that ends in the next second waits for little. False takes that back.
  void abort(bool aborts);
  /// Log and events so far, when the process ends without the engine being closed. At most a second.
  void flushAtExit();

  /// What happened since it began, in one line; empty: nothing did, or it cannot be asked now.
  std::string endLine();
  /// By the thread that writes the log, which no signal reaches: whoever read stderr may be gone, or not read.
  void sayOnStderr(const std::string& line);

  /// What netlink would report, for NICs that do not exist: tests. Any thread.
  void reportLink(size_t nic, bool up);
  /// The same for an address; family 0: it has none.
  void reportAddress(size_t nic, const NicAddress& address);
  /// Datagrams not accepted so far: malformed, unauthenticated, replayed, for somebody else.
  uint64_t dropped() const { return admission_.dropped().sum() + admission_.unread(); }
  const Dropped& droppedByReason() const { return admission_.dropped(); }
  /// Whether a device could be bound to and probed when the engine began, or will be one day. Any thread.
  bool hasAddress(int dev) const {
    return dev >= 0 && static_cast<size_t>(dev) < addressed_.size() && addressed_[static_cast<size_t>(dev)];
  }
  /// Strangers who connected to a lane's listen.

 private:
  friend struct EngineDoor;  // tests: a datagram straight into the engine
  // the thread
  void loop();
  bool handle(const epoll_event* events, int count);
  bool receiveAll(std::vector<size_t> ready);
  void tick(int64_t now);
  void tickPeer(Peer& peer, int64_t now);
  int64_t restsUntil(const Peer& peer, int64_t now) const;
  int64_t ackBackstopNs() const;
  void driveReplays();
  // acknowledgements in
  void fetchAcks();
  void readAcks();
  // beginning and end
  void lend(Distance distance);
  void startRecorder();
  void watchEverything();
  bool watch(int fd, uint64_t tag) { return fd < 0 || epoll_.add(fd, tag); }
  bool watchSockets(size_t nic);
  bool rebind(size_t nic);
  void reopen(size_t nic);
  bool awaitLingering();
  void reportEnd(uint64_t strangers);
  void onLaneMade(const LanePtr& lane, bool ok);
  ncclResult_t tryConnect(void* ctx, int dev, void* handle, void** sendComm);
  ncclResult_t tryAccept(void* listenComm, void** recvComm);
  ncclResult_t afterItsLine(ncclResult_t result);
  uint64_t beginConnect(Peer& peer, void* ctx, int dev, const ConnectHandle& to);

  const Config config_;
  Scribe log_;
  Shared shared_;
  Anchors anchors_;
  Tally tally_;
  Services services_;  // for the connections
  FirstFailure firstFailure_;
  std::atomic<bool> logHangs_{false};
  std::mutex mutex_;
  std::condition_variable settled_;  // a slow call of a connection's is over
  Epoll epoll_;
  Epoll ackEpoll_;  // of the sockets for acknowledgements
  const Fd wakeFd_;

  Streams streams_{shared_, epoll_, ackEpoll_};
  NicReport report_;
  Drains drains_{shared_, report_};
  Announcer announcer_{shared_};
  Locator locator_{shared_, report_};
  SecondWay secondWay_{shared_, streams_, report_};
  Judge judge_{shared_, streams_, secondWay_, locator_, report_};
  NicLinks links_{shared_,
                  judge_,
                  announcer_,
                  report_,
                  [this](size_t nic) { return rebind(nic); },
                  [this](size_t nic) { reopen(nic); }};
  Rates rates_;
  Admission admission_{shared_};
  Listeners listeners_;
  Refusals refusals_;
  Connections connections_{shared_, streams_};
  Messages messages_{
      shared_,
      services_,
      {admission_, streams_, connections_, listeners_, refusals_, judge_, locator_, rates_, report_, drains_}};
  std::unique_ptr<Status> status_;

  std::vector<bool> addressed_;  // by NIC: it had an address at the start, or may get one
  uint64_t nextId_ = 1;
  bool threadsAck_ = true;                // every NIC's transport waits for acknowledgements, which NCCL's threads send
  size_t turn_ = 0;                       // which socket is read first
  int64_t cpuUs_ = 0;                     // what the thread used, when it is over
  std::atomic<int64_t> nextAckFetch_{0};  // by NCCL's threads
  std::atomic<bool> stop_{false};
  std::unique_ptr<Connector> connector_;
  Helpers helpers_;
  std::thread thread_;
};

}  // namespace r2cc
