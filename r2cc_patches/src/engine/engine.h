// One per process: the thread that watches links, answers datagrams, judges paths and moves connections. Everything it
// owns is under one mutex, which NCCL's threads take only to listen, connect, accept, register and close, and
// without waiting for it to fetch acknowledgements.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/helpers.h"
#include "data/recv_connection.h"
#include "data/send_connection.h"
#include "engine/config.h"
#include "health/peer.h"
#include "lanes/connector.h"
#include "nic/links.h"
#include "nic/nic_traffic.h"
#include "record/flight.h"
#include "record/health_board.h"
#include "record/scribe.h"
#include "wire/dropped.h"
#include "wire/handle.h"
#include "wire/side_channel.h"

namespace r2cc {

struct Listen {
  uint64_t id;
  uint8_t dev;
  void* ctx;
  std::deque<std::shared_ptr<RecvConnection>> arrived;  // in the order of their Hello, not yet accepted
};

class Engine {  // NOLINT(clang-analyzer-optin.performance.Padding): members stand by what they are for
 public:
  using Warn = std::function<void(const std::string&)>;
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
  const Warn& warner() const { return warn_; }
  /// Log and events so far, when the process ends without the engine being closed. At most a second.
  void flushAtExit();

  /// What netlink would report, for NICs that do not exist: tests. Any thread.
  void reportLink(size_t nic, bool up);
  /// Datagrams not accepted so far: malformed, unauthenticated, replayed, for somebody else.
  uint64_t dropped() const;
  /// Those of them that the kernel did not let through to us.
  uint64_t unread() const;
  const Dropped& droppedByReason() const { return dropped_; }
  /// Whether a device can be bound to and probed.
  bool hasAddress(int dev) const {
    return dev >= 0 && static_cast<size_t>(dev) < nics_.size() && nics_[static_cast<size_t>(dev)].address.family != 0;
  }
  /// Strangers who connected to a lane's listen.
  uint64_t refusedConnects() const { return connector_->refused(); }

 private:
  // A NIC's reasons to be down.
  static constexpr uint8_t kNoCarrier = 1, kPortError = 2, kDeviceLost = 4, kAssumedDown = 8;
  friend struct EngineDoor;  // tests: a datagram straight into the engine
  void loop();
  void catchUp();
  void onLink(size_t nic, bool up, const char* cause);
  void linkNews(size_t nic, uint8_t reason, bool up, const char* cause);
  void readLinks();
  void readNicEvents(size_t nic);
  void watchNics();
  void assumeDown(size_t nic);
  void tick(int64_t now);
  void tickPeer(Peer& peer, int64_t now);
  int64_t restsUntil(const Peer& peer, int64_t now) const;
  int64_t ackBackstopNs() const;
  void lookSoon();
  void driveReplays();
  void judgePaths(Peer& peer, int64_t now);
  void probeRound(Peer& peer, int64_t now);
  void nursePath(Peer& peer, Path& path, int64_t now);
  void watchSilence(Peer& peer, int64_t now);
  static void askIfStuck(Connection& connection);
  void onDatagram(size_t nic, const NicAddress& from, const uint8_t* data, size_t size);
  Peer* admit(const Parsed& parsed);
  Peer* genuine(const Parsed& parsed);
  bool fresh(Peer& peer, const Parsed& parsed);
  void heardTwin(Peer& peer, size_t nic, const NicAddress& from, const Header& header) const;
  bool receiveAll(std::vector<size_t> ready);
  void readRefusals(size_t nic);
  void onRefused(size_t nic, const NicAddress& to, const uint8_t* quote, size_t size);
  void dispatch(Peer& peer, Path* path, Type type, Reader& reader);
  void fetchAcks();
  void readAcks();
  void onAcks(size_t nic, const NicAddress& from, const uint8_t* data, size_t size);
  Path* heard(Peer& peer, size_t nic, const NicAddress& from, const Header& header);
  void heardOver(Peer& peer, size_t nic, Path* path, const Header& header);
  void takeAcks(Peer& peer, const Parsed& parsed);
  bool dispatchToSender(Peer& peer, Type type, Reader& reader);
  bool dispatchToReceiver(Peer& peer, Type type, Reader& reader);
  void onHello(Peer& peer, const Hello& hello);
  void onPing(Peer& peer, const Path& path, const Ping& ping);
  void onPong(Peer& peer, Path& path, const Pong& pong);
  static void onDataProof(Path& path);
  void seeRemoteLinks(Peer& peer, const Header& header);
  // the second way of the side channel (engine_streams.cc)
  void watchListens();
  void acceptStreams(size_t nic, bool acks);
  void openStreams(Peer& peer, Path& path, int64_t now);
  void adopt(const SideStreamPtr& stream);
  bool claim(const SideStreamPtr& stream, Peer& peer, bool rests);
  void readStream(int fd);
  void onStreamDatagram(const SideStreamPtr& stream, const uint8_t* data, size_t size);
  void hearStream(SideStream& stream, Peer& peer, const Parsed& parsed);
  void closeStream(const SideStreamPtr& stream);
  void closeStreams(Path& path);
  void tickStreams(Peer& peer, int64_t now);
  void tickStreamsOf(Peer& peer, Path& path, int64_t now);
  void keepSpare(Peer& peer, Path& path, int64_t now);
  void makeSpare(Peer& peer, Path& path);
  void introduce(const Peer& peer, SideStream& spare) const;
  bool wakeSpare(Path& path, int64_t now);
  void proveUdp(Peer& peer, Path& path, const SideStream& control, int64_t now);
  void greet(Peer& peer, SideStream& stream) const;
  void sayUdp(const Peer& peer, Path& path, bool passes);
  void proveData(Peer& peer, Path& path, SideStream& stream, int64_t now) const;
  bool silentByTcp(Peer& peer, Path& path, int64_t now);
  void endStrangers(int64_t now);
  void announce(int64_t now);
  void onMisplaced(const Lane& lane, bool forGood);
  bool sharesSubnet(size_t nic) const;
  void pathDown(Peer& peer, Path& path, const std::string& cause);
  void pathEvent(const Peer& peer, const Path& path, const char* state, const std::string& cause);
  void failAll(Peer& peer, const std::string& why);
  void announceLinks();
  void announceLinksTo(const Peer& peer) const;
  // what each path carries (engine_measure.cc)
  void measure(Peer& peer, int64_t now);
  bool comparesRates() const;
  void onCapacity(Peer& peer, const Path& path);
  void onSlow(Peer& peer, const Slow& message);
  void slowHere(size_t nic, int64_t now);
  void wellHere(size_t nic, int64_t now);
  void agree(Peer& peer, Path& path, int64_t now);
  // what this host's NICs can carry (engine_report.cc)
  static double carries(const Peer& peer, const Path& path);
  static void tellReceiver(Peer& peer, Path& path, int64_t now);
  void onPathHealth(const Peer& peer, const PathHealth& message);
  void updateHealth(int64_t now);
  double inAll(size_t nic, double byPaths, int64_t now);
  std::vector<R2ccNicHealth> healthOfNics() const;
  // where a silent path broke (engine_locate.cc)
  void silentDeath(Peer& peer, Path& path, int64_t now);
  void onPathDead(const Peer& peer, const PathDead& message);
  static void onLookAt(const Peer& peer, const LookAt& message);
  void suspectAllOf(size_t nic, int64_t now);
  void inquire(int64_t now);
  void locate(Peer& peer, Path& path, int64_t now);
  void flushOutboxes();
  void endLingering(Peer& peer, int64_t now);
  void awaitLingering();
  int64_t callNs() const;
  bool stoppedOnly(const Peer& peer, int64_t now) const;
  void forget(RecvConnection& connection);
  void forgetAbandoned(int64_t now);
  void forgetConnects(Peer& peer, int64_t now);
  uint64_t beginConnect(Peer& peer, void* ctx, int dev, const ConnectHandle& to);
  bool linkUp(size_t nic) const { return (self_.nicsUp >> nic & 1) != 0; }
  Peer& peerFor(uint64_t process, bool weConnect, const Key& key);
  Peer* findPeer(uint64_t process, bool weConnect);
  void watch(int fd, uint64_t tag);
  void watchAcks();
  std::vector<NicAddress> addresses() const;
  void startRecorder();
  void remember(std::shared_ptr<Connection> connection);
  void onLaneMade(const LanePtr& lane, bool ok);

  const Config config_;
  EventLog events_;
  Scribe log_;
  std::vector<LocalNic> nics_;
  std::vector<uint8_t> downFor_;  // a NIC's reasons to be down, see linkNews
  SideChannel side_;
  LinkWatch links_;
  Self self_;
  Warn warn_;
  Warn info_;
  std::unique_ptr<Flight> flight_;  // outlives the connections; null unless R2CC_TRACE_FILE is set
  Anchors anchors_;
  Services services_;

  std::mutex mutex_;
  std::map<std::pair<uint64_t, bool>, std::unique_ptr<Peer>> peers_;
  std::unordered_map<uint64_t, std::unique_ptr<Listen>> listens_;
  std::unordered_map<const Connection*, std::shared_ptr<Connection>> connections_;
  uint64_t nextId_ = 1;
  int announcements_ = 0;             // left to send of the last change of links
  std::atomic<int64_t> nextTick_{0};  // written under the mutex
  bool threadsAck_ = true;            // every NIC's transport waits for acknowledgements, which NCCL's threads send
  bool late_ = false;                 // this process did not run lately; of the next tick
  bool wasLate_ = false;
  int64_t restUntil_ = 0;                 // by the last tick: when something may have to be looked at
  bool healthChanged_ = false;            // something happened that may be a NIC's
  bool answers_ = false;                  // the datagram being read answers a probe
  bool byUdp_ = true;                     // and how it came
  std::map<int, SideStreamPtr> streams_;  // by descriptor
  std::vector<bool> udpLost_, astray_;    // by NIC: said in NCCL's log
  int64_t announceUntil_ = 0, nextAnnounce_ = 0, nextSweep_ = 0, nextForget_ = 0;
  bool probing_ = false;               // at the last tick: some path is suspect
  std::vector<int64_t> heardNs_;       // when anybody was last heard over each NIC
  std::vector<int64_t> inquireUntil_;  // NICs over which everybody is asked until then
  int64_t lastInquiry_ = 0;
  HealthBoard* const health_;
  int64_t healthNs_ = 0;
  NicTraffic traffic_;
  Dropped dropped_;
  size_t turn_ = 0;  // which socket is read first
  uint64_t failovers_ = 0, failbacks_ = 0, probes_ = 0, acks_ = 0;
  int64_t cpuUs_ = 0;  // what the thread used, when it is over

  std::condition_variable settled_;  // a slow call of a connection's is over
  int epoll_ = -1, wakeFd_ = -1;
  int ackEpoll_ = -1;                     // of the sockets for acknowledgements
  std::atomic<int64_t> nextAckFetch_{0};  // by NCCL's threads
  std::atomic<bool> stop_{false};
  std::unique_ptr<Connector> connector_;
  Helpers helpers_;
  std::thread thread_;
};

}  // namespace r2cc
