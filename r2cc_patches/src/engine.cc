// The engine's thread, and NCCL's side of it. Datagrams are in engine_messages.cc, judgement in engine_health.cc.
#include "engine.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "keys.h"
#include "side_filter.h"

namespace r2cc {
namespace {

constexpr int64_t kProbingTickNs = msToNs(1);  // a round of probes ends when it is due
constexpr int64_t kTickNs = msToNs(2);
constexpr int64_t kRestNs = msToNs(6);  // at most, where every path is up and every message on its way
constexpr auto kBreath = std::chrono::microseconds(100);
constexpr size_t kClosedRemembered = 4096;
constexpr int64_t kLingerAtEndNs = msToNs(2000);
constexpr uint64_t kTagWake = 1000, kTagLinks = 1001;  // below: a NIC's index
constexpr uint64_t kTagDriver = 2000;                  // and from here: that of one whose driver talks

/// The kernel's struct sched_attr, version 0; the C library has none.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;  // SCHED_OTHER
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};

/// Asks for a short time slice, so that the thread runs soon after it is woken even beside busy progress threads (Linux
/// 6.12 and later, no privilege needed; older kernels ignore it). It works for microseconds and then sleeps.
void askForShortSlices() {
  SchedAttr attr;
  attr.nice = getpriority(PRIO_PROCESS, 0);
  attr.runtime = static_cast<uint64_t>(usToNs(100));
  (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

int msUntil(int64_t then) {
  return static_cast<int>(std::max<int64_t>(0, (then - nowNs() + msToNs(1) - 1) / msToNs(1)));
}

void drain(int fd) {
  uint64_t count = 0;
  (void)!read(fd, &count, sizeof(count));  // NOLINT(clang-analyzer-unix.BlockInCriticalSection): O_NONBLOCK
}

std::string missingInLog(uint64_t lines) {
  return "R2CC: " + std::to_string(lines) + " lines are missing here: the reader of NCCL's log is too slow";
}

}  // namespace

Engine::Engine(const Config& config, const InnerNet& inner, std::vector<LocalNic> nics, Warn warn,
               SideChannel::Filter filter, Warn info, Distance distance, HealthBoard* health)
    : config_(config),
      events_(config.eventFile),
      log_("r2cc-log", missingInLog),
      nics_(std::move(nics)),
      side_(nics_, std::move(filter)),
      warn_(log_.through(std::move(warn))),
      info_(info ? log_.through(std::move(info)) : [](const std::string&) {}),
      health_(health) {
  for (LocalNic& nic : nics_) {
    traffic_.add(nic.name);
    if (nic.inner.net == nullptr && (nic.address.flags & kSideOnly) == 0) nic.inner = inner;
    threadsAck_ &= nic.inner.ops == nullptr || nic.inner.ops->needsAck;
  }
  heardNs_.resize(nics_.size());
  inquireUntil_.resize(nics_.size());
  self_.id = randomId();
  self_.key = randomKey();
  keepOnlyFor(self_.id, side_.fds());
  uint32_t up = 0;
  for (size_t i = 0; i < nics_.size(); i++) {
    downFor_.push_back(LinkWatch::isUp(nics_[i].name) ? 0 : kNoCarrier);
    if (nics_[i].assumedDown) assumeDown(i);
    up |= downFor_[i] == 0 ? uint32_t{1} << i : 0;
  }
  self_.nicsUp = up;
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wakeFd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (epoll_ < 0 || wakeFd_ < 0) throw std::runtime_error("out of file descriptors");
  connector_ = std::make_unique<Connector>([this](const LanePtr& lane, bool ok) { onLaneMade(lane, ok); });
  const auto wake = [fd = wakeFd_] {
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof(one));
  };
  if (health_ != nullptr) health_->open(healthOfNics());
  startRecorder();
  services_.mode = std::min(config_.mode, kHighestMode);
  services_.connector = connector_.get(), services_.events = &events_, services_.flight = flight_.get();
  services_.local = &nics_, services_.anchors = &anchors_, services_.distance = std::move(distance);
  services_.holdNs = config_.holdNs;
  services_.wake = wake, services_.fetchAcks = [this] { fetchAcks(); };
  services_.warn = warn_, services_.info = info_;
  services_.settled = &settled_;
  services_.apart = [this](Helpers::Work slow, Helpers::Work then) {
    helpers_.run(std::move(slow), [this, then = std::move(then)] {
      const std::lock_guard<std::mutex> lock(mutex_);
      then();
      flushOutboxes();
      settled_.notify_all();
    });
  };
  watchAcks();
  watch(wakeFd_, kTagWake);
  if (links_.fd() >= 0) watch(links_.fd(), kTagLinks);
  for (size_t i = 0; i < side_.fds().size(); i++) {
    if (side_.fds()[i] >= 0) watch(side_.fds()[i], i);
  }
  watchNics();
  thread_ = std::thread([this] { loop(); });
  pthread_setname_np(thread_.native_handle(), "r2cc-engine");
}

Engine::~Engine() {
  awaitLingering();
  stop_ = true;
  services_.wake();
  thread_.join();
  if (health_ != nullptr) health_->open({});
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [raw, connection] : connections_) connection->shutdown();
  }
  helpers_.end();
  anchors_.close(*connector_);
  const uint64_t strangers = connector_->refused();
  connector_.reset();  // closes what was just given to it; may still call onLaneMade
  for (const auto& [key, peer] : peers_) acks_ += peer->acksSent;
  auto line = events_.line("net_end");
  line.add("failovers", static_cast<int64_t>(failovers_)).add("failbacks", static_cast<int64_t>(failbacks_));
  line.add("acks", static_cast<int64_t>(acks_)).add("probes", static_cast<int64_t>(probes_));
  line.add("engine_cpu_us", cpuUs_);
  line.add("dropped", static_cast<int64_t>(dropped()));
  line.add("refused_connects", static_cast<int64_t>(strangers));
  line.add("dropped_malformed", static_cast<int64_t>(dropped_.malformed));
  line.add("dropped_stranger", static_cast<int64_t>(dropped_.stranger));
  line.add("dropped_forged", static_cast<int64_t>(dropped_.forged));
  line.add("dropped_replayed", static_cast<int64_t>(dropped_.replayed));
  line.add("dropped_refusals", static_cast<int64_t>(dropped_.refusals));
  line.add("dropped_by_kernel", static_cast<int64_t>(unread()));
  for (const int fd : {wakeFd_, epoll_, ackEpoll_}) close(fd);
}

void Engine::flushAtExit() {
  const int64_t end = nowNs() + Scribe::kPatienceNs;
  (void)log_.flush(Scribe::kPatienceNs);
  (void)events_.flushAll(std::max<int64_t>(end - nowNs(), 0));
}

void Engine::startRecorder() {
  if (config_.traceFile.empty()) return;
  FlightOptions options{config_.traceFile, config_.traceBytes, self_.id, config_.mode, {}, warn_};
  for (const LocalNic& nic : nics_) options.nics.push_back(nic.name);
  flight_ = std::make_unique<Flight>(std::move(options));
}

void Engine::watch(int fd, uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) throw std::runtime_error("epoll_ctl failed");
}

void Engine::loop() {
  askForShortSlices();
  epoll_event events[16];
  while (!stop_) {
    const int count = epoll_wait(epoll_, events, 16, msUntil(nextTick_));
    std::unique_lock<std::mutex> lock(mutex_);
    // Links first: what they say makes sense of everything else.
    for (int i = 0; i < count; i++) {
      if (events[i].data.u64 == kTagLinks) readLinks();
    }
    std::vector<size_t> ready, refused;
    bool news = false;  // acknowledgements, by far the most of what comes, need no look at everything
    for (int i = 0; i < count; i++) {
      if (events[i].data.u64 >= kTagDriver) readNicEvents(events[i].data.u64 - kTagDriver);
    }
    for (int i = 0; i < count; i++) {
      const uint64_t tag = events[i].data.u64;
      if (tag == kTagWake) drain(wakeFd_);
      if (tag < kTagWake && (events[i].events & EPOLLERR) != 0) refused.push_back(tag);
      if (tag < kTagWake) ready.push_back(tag);
      news |= tag >= kTagWake;
    }
    const bool flooded = receiveAll(std::move(ready));
    driveReplays();
    for (const size_t nic : refused) readRefusals(nic);  // what was heard since says more
    if (const int64_t now = nowNs(); news || now >= nextTick_) {
      tick(now);
      nextTick_ = probing_ ? now + kProbingTickNs : std::clamp(restUntil_, now + kTickNs, now + kRestNs);
    }
    flushOutboxes();
    lock.unlock();
    if (flooded) std::this_thread::sleep_for(kBreath);  // NCCL's threads want the mutex too
  }
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  cpuUs_ = int64_t{cpu.tv_sec} * 1'000'000 + cpu.tv_nsec / 1000;
}

void Engine::readLinks() {
  const auto changed = [this](unsigned ifindex, bool up) {
    for (size_t n = 0; n < nics_.size(); n++) {
      if (nics_[n].ifindex == ifindex) linkNews(n, kNoCarrier, up, "netlink");
    }
  };
  if (!links_.read(changed)) return;
  info_("R2CC: the kernel had more news of links than it keeps: the state of every NIC was read again");
  for (const LocalNic& nic : nics_) {
    if (nic.ifindex != 0) changed(nic.ifindex, LinkWatch::isUp(nic.ifindex));
  }
}

/// Something is going on since the last tick.
void Engine::lookSoon() { nextTick_ = std::min(nextTick_.load(), nowNs() + kTickNs); }

void Engine::flushOutboxes() {
  for (const auto& [key, peer] : peers_) peer->flushOutbox();
}

/// A NIC is up when nothing says that it is down: carrier and driver are heard apart, and in any order.
void Engine::linkNews(size_t nic, uint8_t reason, bool up, const char* cause) {
  downFor_[nic] = static_cast<uint8_t>(up ? downFor_[nic] & ~reason : downFor_[nic] | reason);
  onLink(nic, downFor_[nic] == 0, cause);
}

void Engine::watchNics() {
  for (size_t nic = 0; nic < nics_.size(); nic++) {
    const InnerOps* ops = nics_[nic].inner.ops;
    if (ops == nullptr) continue;
    connector_->prepare(nics_[nic].inner.net, nics_[nic].dev);
    if (ops->openEvents == nullptr) continue;
    const int fd = ops->openEvents(nics_[nic].dev);
    if (fd >= 0) watch(fd, kTagDriver + nic);
  }
}

void Engine::readNicEvents(size_t nic) {
  NicEvent event;
  while (nics_[nic].inner.ops->readEvent(nics_[nic].dev, &event)) {
    // A lost device must be opened again before it is of use, and the fork opens its devices once.
    linkNews(nic, event.fatal ? kDeviceLost : kPortError, event.up, event.cause);
  }
}

void Engine::remember(std::shared_ptr<Connection> connection) {
  connections_.emplace(connection.get(), std::move(connection));
}

void Engine::onLaneMade(const LanePtr& lane, bool ok) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lane->connection == nullptr) {
    if (!anchors_.onMade(lane, ok)) return;
    for (const auto& [raw, connection] : connections_) connection->onAnchor(lane);
    return;
  }
  if (connections_.count(lane->connection) == 0) return;
  lane->connection->onLaneMade(lane, ok);
  lane->connection->peer.flushOutbox();
}

// ---- NCCL's side ------------------------------------------------------------------------------------------------

ncclResult_t Engine::listen(void* ctx, int dev, void* handle, void** listenComm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  anchors_.make(nics_, ctx, *connector_);
  ConnectHandle out;
  out.process = self_.id;
  out.key = self_.key;
  out.dev = static_cast<uint8_t>(dev);
  out.listen = nextId_++;
  // The device's own NIC first; then others, the last interfaces (side-only) before the first.
  const std::vector<NicAddress> all = addresses();
  for (const NicAddress& nic : all) {
    if (nic.dev == dev) out.nics.push_back(nic);
  }
  for (auto nic = all.rbegin(); nic != all.rend() && out.nics.size() < ConnectHandle::kAddresses; ++nic) {
    if (nic->dev != dev) out.nics.push_back(*nic);
  }
  auto entry = std::make_unique<Listen>(Listen{out.listen, out.dev, ctx, {}});
  *listenComm = entry.get();
  listens_[out.listen] = std::move(entry);
  writeHandle(out, handle);
  return ncclSuccess;
}

ncclResult_t Engine::connect(void* ctx, int dev, void* handle, void** sendComm) {
  *sendComm = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  anchors_.make(nics_, ctx, *connector_);
  auto* state = static_cast<uint8_t*>(handle) + kHandleStateAt;
  SendConnection* connection = nullptr;
  memcpy(&connection, state, sizeof(void*));
  if (connection == nullptr) {
    ConnectHandle to;
    if (!readHandle(handle, to)) {
      warn_("R2CC: the peer's connect handle was not written by R2CC: all ranks need the same library and R2CC_MODE");
      return ncclInvalidUsage;
    }
    Peer& peer = peerFor(to.process, /*weConnect=*/true, pairKey(to.key, self_.id, to.process));
    peer.setRemote(to.nics);
    const auto made = std::make_shared<SendConnection>(services_, peer, nextId_++, ctx, to.listen,
                                                       static_cast<uint8_t>(dev), to.dev, addresses());
    connection = made.get();
    peer.sends[made->id] = made;
    remember(made);
    memcpy(state, &connection, sizeof(void*));
    connection->tick(nowNs());
    peer.flushOutbox();
  }
  if (connection->over()) return ncclRemoteError;
  if (connection->everActive()) *sendComm = static_cast<Connection*>(connection);
  return ncclSuccess;
}

ncclResult_t Engine::accept(void* listenComm, void** recvComm) {
  *recvComm = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* entry = static_cast<Listen*>(listenComm);
  if (entry->arrived.empty()) return ncclSuccess;
  const std::shared_ptr<RecvConnection>& first = entry->arrived.front();
  if (first->over()) return ncclRemoteError;
  if (first->state() != ConnectionState::Active) return ncclSuccess;
  *recvComm = static_cast<Connection*>(first.get());
  entry->arrived.pop_front();
  return ncclSuccess;
}

ncclResult_t Engine::regMr(void* comm, void* data, size_t size, int type, uint64_t offset, int fd, void** handle) {
  EngineLock lock(mutex_);
  return static_cast<Connection*>(comm)->regMr(lock, data, size, type, offset, fd, handle);
}

ncclResult_t Engine::deregMr(void* comm, void* handle) {
  EngineLock lock(mutex_);
  const ncclResult_t result = static_cast<Connection*>(comm)->deregMr(lock, handle);
  static_cast<Connection*>(comm)->peer.flushOutbox();  // it may have failed the connection
  return result;
}

void Engine::closeSend(void* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* connection = static_cast<SendConnection*>(static_cast<Connection*>(comm));
  Peer& peer = connection->peer;
  connection->linger(nowNs() + config_.holdNs);
  endLingering(peer, nowNs());  // the connection may be gone now
  peer.flushOutbox();
}

/// Ends the closed ones whose copies the peer has, or will not have any more.
void Engine::endLingering(Peer& peer, int64_t now) {
  for (auto it = peer.sends.begin(); it != peer.sends.end();) {
    const auto& next = *it++;
    if (!next.second->lingers() || !next.second->lingered(now)) continue;
    const std::shared_ptr<SendConnection> connection = next.second;
    if (now >= connection->lingersUntil()) connection->fail("closed, and what was sent before was not acknowledged");
    peer.tell(connection->bye());
    connection->shutdown();
    failovers_ += connection->failovers;
    failbacks_ += connection->failbacks;
    peer.sends.erase(connection->id);
    connections_.erase(connection.get());
  }
}

/// What was sent and not acknowledged when the last communicator ends: milliseconds, unless a fault is being dealt
/// with.
void Engine::awaitLingering() {
  const auto lingers = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) {
      const auto& sends = peer.second->sends;
      return std::any_of(sends.begin(), sends.end(), [](const auto& c) { return c.second->lingers(); });
    });
  };
  const int64_t end = nowNs() + kLingerAtEndNs;
  while (lingers() && nowNs() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Engine::closeRecv(void* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* connection = static_cast<RecvConnection*>(static_cast<Connection*>(comm));
  Peer& peer = connection->peer;
  const uint64_t delivered = connection->delivered();
  peer.tell(connection->bye());
  peer.flushOutbox();
  connection->shutdown();
  {
    const Owned owned(peer.ackOwner, Owned::Wait::Yes);
    peer.receives.erase(std::remove(peer.receives.begin(), peer.receives.end(), connection), peer.receives.end());
  }
  peer.closedAt[connection->id] = delivered;
  if (peer.closedAt.size() > kClosedRemembered) peer.closedAt.erase(peer.closedAt.begin());
  peer.receivesById.erase(connection->id);
  connections_.erase(connection);
}

void Engine::closeListen(void* listenComm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  listens_.erase(static_cast<Listen*>(listenComm)->id);
}

Peer* Engine::findPeer(uint64_t process, bool weConnect) {
  const auto it = peers_.find({process, weConnect});
  return it == peers_.end() ? nullptr : it->second.get();
}

Peer& Engine::peerFor(uint64_t process, bool weConnect, const Key& key) {
  std::unique_ptr<Peer>& peer = peers_[{process, weConnect}];
  const Probation probation{config_.probationNs, config_.damping};
  if (peer == nullptr) peer = std::make_unique<Peer>(process, weConnect, key, self_, side_, nics_, probation);
  return *peer;
}

}  // namespace r2cc
