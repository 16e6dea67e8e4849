// The engine's thread, and NCCL's side of it. Datagrams are in engine_messages.cc, judgement in engine_health.cc.
#include "engine/engine.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/process_life.h"
#include "base/short_slices.h"
#include "engine/engine_tags.h"
#include "wire/keys.h"
#include "wire/side_filter.h"

namespace r2cc {
namespace {

constexpr int64_t kProbingTickNs = msToNs(1);  // a round of probes ends when it is due
constexpr int64_t kTickNs = msToNs(2);
constexpr int64_t kLateNs = msToNs(10);      // a tick this late means we were not running
constexpr int64_t kStoppedNs = msToNs(100);  // and this late, that it is not for want of speed
constexpr int64_t kRestNs = msToNs(6);       // at most, where every path is up and every message on its way
constexpr auto kBreath = std::chrono::microseconds(100);
constexpr uint64_t kTagWake = 1000, kTagLinks = 1001;  // below: a NIC's index
static_assert(kTagListen > kTagDriver + kMaxNics && kTagStream > kTagAckListen + kMaxNics);

int msUntil(int64_t then) {
  return static_cast<int>(std::max<int64_t>(0, (then - runNs() + msToNs(1) - 1) / msToNs(1)));
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
  udpLost_.resize(nics_.size());
  astray_.resize(nics_.size());
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
  services_.misplaced = [this](const Lane& lane, bool forGood) { onMisplaced(lane, forGood); };
  watchAcks();
  watchListens();
  watch(wakeFd_, kTagWake);
  if (links_.fd() >= 0) watch(links_.fd(), kTagLinks);
  for (size_t i = 0; i < side_.fds().size(); i++) {
    if (side_.fds()[i] >= 0) watch(side_.fds()[i], i);
  }
  watchNics();
  somethingRuns(1);
  thread_ = std::thread([this] { loop(); });
  pthread_setname_np(thread_.native_handle(), "r2cc-engine");
}

Engine::~Engine() {
  awaitLingering();
  stop_ = true;
  services_.wake();
  thread_.join();
  somethingRuns(-1);
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
    catchUp();
    // Links first: what they say makes sense of everything else.
    for (int i = 0; i < count; i++) {
      if (events[i].data.u64 == kTagLinks) readLinks();
    }
    std::vector<size_t> ready, refused;
    bool news = false;  // acknowledgements, by far the most of what comes, need no look at everything
    for (int i = 0; i < count; i++) {
      const uint64_t tag = events[i].data.u64;
      if (tag >= kTagDriver && tag < kTagListen) readNicEvents(tag - kTagDriver);
    }
    for (int i = 0; i < count; i++) {
      const uint64_t tag = events[i].data.u64;
      if (tag == kTagWake) drain(wakeFd_);
      if (tag < kTagWake && (events[i].events & EPOLLERR) != 0) refused.push_back(tag);
      if (tag < kTagWake) ready.push_back(tag);
      if (tag >= kTagStream) readStream(static_cast<int>(tag - kTagStream));
      if (tag >= kTagListen && tag < kTagAckListen) acceptStreams(tag - kTagListen, /*acks=*/false);
      if (tag >= kTagAckListen && tag < kTagStream) acceptStreams(tag - kTagAckListen, /*acks=*/true);
      news |= tag >= kTagWake && tag < kTagStream;
    }
    const bool flooded = receiveAll(std::move(ready));
    driveReplays();
    for (const size_t nic : refused) readRefusals(nic);  // what was heard since says more
    if (const int64_t now = runNs(); news || now >= nextTick_) {
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

/// Before anything is judged or noted: time in which this process did not run counts for nothing. Where every tick is a
/// little late this host is that slow, and time goes on all the same, or nothing would ever be found.
void Engine::catchUp() {
  const int64_t lateNs = runNs() - nextTick_;
  if (nextTick_ == 0 || lateNs <= kLateNs) return;
  late_ = true;
  if (!wasLate_ || lateNs > kStoppedNs) runClock.lost(lateNs);
}

/// Something is going on since the last tick.
void Engine::lookSoon() { nextTick_ = std::min(nextTick_.load(), runNs() + kTickNs); }

void Engine::flushOutboxes() {
  for (const auto& [key, peer] : peers_) peer->flushOutbox();
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

/// NCCL calls again and again with the same handle, in whose last bytes we keep which connection it is: a number, as it
/// may have been given up meanwhile.
ncclResult_t Engine::connect(void* ctx, int dev, void* handle, void** sendComm) {
  *sendComm = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  catchUp();
  anchors_.make(nics_, ctx, *connector_);
  ConnectHandle to;
  if (!readHandle(handle, to)) {
    warn_("R2CC: the peer's connect handle was not written by R2CC: all ranks need the same library and R2CC_MODE");
    return ncclInvalidUsage;
  }
  Peer* known = findPeer(to.process, /*weConnect=*/true);
  Peer& peer = known != nullptr ? *known : peerFor(to.process, true, pairKey(to.key, self_.id, to.process));
  uint64_t id = 0;
  auto* state = static_cast<uint8_t*>(handle) + kHandleStateAt;
  memcpy(&id, state, sizeof(id));
  if (id == 0) {
    id = beginConnect(peer, ctx, dev, to);
    memcpy(state, &id, sizeof(id));
  }
  const auto found = peer.sends.find(id);
  if (found == peer.sends.end() || found->second->over()) return ncclRemoteError;
  SendConnection& connection = *found->second;
  connection.calledNs = runNs();
  if (!connection.everActive()) return ncclSuccess;
  connection.handedOver = true;
  *sendComm = static_cast<Connection*>(&connection);
  return ncclSuccess;
}

uint64_t Engine::beginConnect(Peer& peer, void* ctx, int dev, const ConnectHandle& to) {
  peer.setRemote(to.nics);
  const auto made = std::make_shared<SendConnection>(services_, peer, nextId_++, ctx, to.listen,
                                                     static_cast<uint8_t>(dev), to.dev, addresses());
  peer.sends[made->id] = made;
  remember(made);
  made->tick(runNs());
  peer.flushOutbox();
  return made->id;
}

ncclResult_t Engine::accept(void* listenComm, void** recvComm) {
  *recvComm = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* entry = static_cast<Listen*>(listenComm);
  if (entry->arrived.empty()) return ncclSuccess;
  const std::shared_ptr<RecvConnection> first = entry->arrived.front();
  if (!first->over() && first->state() != ConnectionState::Active) return ncclSuccess;
  entry->arrived.pop_front();
  if (first->over()) return forget(*first), ncclRemoteError;
  *recvComm = static_cast<Connection*>(first.get());
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

Peer* Engine::findPeer(uint64_t process, bool weConnect) {
  const auto it = peers_.find({process, weConnect});
  return it == peers_.end() ? nullptr : it->second.get();
}

Peer& Engine::peerFor(uint64_t process, bool weConnect, const Key& key) {
  std::unique_ptr<Peer>& peer = peers_[{process, weConnect}];
  const Probation probation{config_.probationNs, config_.damping};
  if (peer == nullptr) {
    peer = std::make_unique<Peer>(process, weConnect, key, self_, side_, nics_, probation);
    announceUntil_ = runNs() + kAnnounceNs;  // it may have learned our addresses from the wrong NICs
  }
  return *peer;
}

}  // namespace r2cc
