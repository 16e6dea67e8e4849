// The engine's thread, and NCCL's side of it. Datagrams are in engine_messages.cc, judgement in engine_health.cc.
#include "engine.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

namespace r2cc {
namespace {

constexpr int64_t kTickNs = msToNs(2);
constexpr size_t kClosedRemembered = 4096;
constexpr uint64_t kTagWake = 1000, kTagTimer = 1001, kTagLinks = 1002;  // below: a NIC's index

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

void everyTick(int fd) {
  itimerspec when{};
  when.it_interval.tv_nsec = when.it_value.tv_nsec = kTickNs;
  timerfd_settime(fd, 0, &when, nullptr);
}

void drain(int fd) {
  uint64_t count = 0;
  (void)!read(fd, &count, sizeof(count));  // NOLINT(clang-analyzer-unix.BlockInCriticalSection): O_NONBLOCK
}

}  // namespace

Engine::Engine(const Config& config, const InnerNet& inner, std::vector<LocalNic> nics, Warn warn,
               SideChannel::Filter filter)
    : config_(config),
      events_(config.eventFile),
      nics_(std::move(nics)),
      side_(nics_, std::move(filter)),
      warn_(std::move(warn)) {
  self_.id = randomId();
  self_.key = randomKey();
  uint32_t up = 0;
  for (size_t i = 0; i < nics_.size(); i++) up |= LinkWatch::isUp(nics_[i].name) ? uint32_t{1} << i : 0;
  self_.nicsUp = up;
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wakeFd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  timerFd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (epoll_ < 0 || wakeFd_ < 0 || timerFd_ < 0) throw std::runtime_error("out of file descriptors");
  connector_ = std::make_unique<Connector>([this](const LanePtr& lane, bool ok) { onLaneMade(lane, ok); });
  const auto wake = [fd = wakeFd_] {
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof(one));
  };
  services_ = Services{inner, connector_.get(), &events_, &nics_, config_.holdNs, wake, warn_};
  watch(wakeFd_, kTagWake);
  watch(timerFd_, kTagTimer);
  if (links_.fd() >= 0) watch(links_.fd(), kTagLinks);
  for (size_t i = 0; i < side_.fds().size(); i++) {
    if (side_.fds()[i] >= 0) watch(side_.fds()[i], i);
  }
  everyTick(timerFd_);
  thread_ = std::thread([this] { loop(); });
  pthread_setname_np(thread_.native_handle(), "r2cc-engine");
}

Engine::~Engine() {
  stop_ = true;
  services_.wake();
  thread_.join();
  for (const auto& [raw, connection] : connections_) connection->shutdown();
  connector_.reset();  // closes what was just given to it; may still call onLaneMade
  for (const auto& [key, peer] : peers_) acks_ += peer->acksSent;
  auto line = events_.line("net_end");
  line.add("failovers", static_cast<int64_t>(failovers_)).add("failbacks", static_cast<int64_t>(failbacks_));
  line.add("acks", static_cast<int64_t>(acks_)).add("probes", static_cast<int64_t>(probes_));
  line.add("dropped", static_cast<int64_t>(dropped_.load()));
  close(timerFd_);
  close(wakeFd_);
  close(epoll_);
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
    const int count = epoll_wait(epoll_, events, 16, -1);
    const std::lock_guard<std::mutex> lock(mutex_);
    // Links first: what they say makes sense of everything else.
    for (int i = 0; i < count; i++) {
      if (events[i].data.u64 != kTagLinks) continue;
      links_.read([this](unsigned ifindex, bool up) {
        for (size_t n = 0; n < nics_.size(); n++) {
          if (nics_[n].ifindex == ifindex) onLink(n, up);
        }
      });
    }
    for (int i = 0; i < count; i++) {
      const uint64_t tag = events[i].data.u64;
      if (tag == kTagWake) drain(wakeFd_);
      if (tag == kTagTimer) drain(timerFd_);
      if (tag >= kTagWake) continue;
      side_.receive(
          tag, [&](const NicAddress& from, const uint8_t* data, size_t size) { onDatagram(tag, from, data, size); },
          [&](const NicAddress& to) { onRefused(to); });
    }
    tick(nowNs());
  }
}

std::vector<NicAddress> Engine::addresses() const {
  std::vector<NicAddress> out;
  for (const LocalNic& nic : nics_) {
    if (nic.address.family != 0 && nic.address.port != 0) out.push_back(nic.address);
  }
  return out;
}

void Engine::remember(std::shared_ptr<Connection> connection) {
  connections_.emplace(connection.get(), std::move(connection));
}

void Engine::onLaneMade(const LanePtr& lane, bool ok) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (connections_.count(lane->connection) != 0) lane->connection->onLaneMade(lane, ok);
}

// ---- NCCL's side ------------------------------------------------------------------------------------------------

ncclResult_t Engine::listen(void* ctx, int dev, void* handle, void** listenComm) {
  const std::lock_guard<std::mutex> lock(mutex_);
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
  auto* state = static_cast<uint8_t*>(handle) + kHandleStateAt;
  SendConnection* connection = nullptr;
  memcpy(&connection, state, sizeof(void*));
  if (connection == nullptr) {
    ConnectHandle to;
    if (!readHandle(handle, to)) {
      warn_("R2CC: the peer's connect handle was not written by R2CC: all ranks need the same library and R2CC_MODE");
      return ncclInvalidUsage;
    }
    Peer& peer = peerFor(to.process, /*weConnect=*/true, to.key);
    peer.setRemote(to.nics);
    const auto made = std::make_shared<SendConnection>(services_, peer, nextId_++, ctx, to.listen,
                                                       static_cast<uint8_t>(dev), to.dev, addresses());
    connection = made.get();
    peer.sends[made->id] = made;
    remember(made);
    memcpy(state, &connection, sizeof(void*));
    connection->tick(nowNs());
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
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<Connection*>(comm)->regMr(data, size, type, offset, fd, handle);
}

ncclResult_t Engine::deregMr(void* comm, void* handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<Connection*>(comm)->deregMr(handle);
}

void Engine::closeSend(void* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* connection = static_cast<SendConnection*>(static_cast<Connection*>(comm));
  Peer& peer = connection->peer;
  peer.tell(connection->bye());
  connection->shutdown();
  failovers_ += connection->failovers;
  failbacks_ += connection->failbacks;
  peer.sends.erase(connection->id);
  connections_.erase(connection);
}

void Engine::closeRecv(void* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* connection = static_cast<RecvConnection*>(static_cast<Connection*>(comm));
  Peer& peer = connection->peer;
  const uint64_t delivered = connection->delivered();
  peer.tell(connection->bye());
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
  if (peer == nullptr) peer = std::make_unique<Peer>(process, weConnect, key, self_, side_, nics_);
  return *peer;
}

}  // namespace r2cc
