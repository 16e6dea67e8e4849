// The engine's thread: what wakes it, and what it looks at on every tick. And acknowledgements in: by far the most of
// what comes, and nothing in them is for the engine: to wake it for one costs ten times what reading it does. So they
// have sockets of their own, and are read by the threads of NCCL that wait for them, between two looks at the rest; by
// the engine when it looks at everything anyway.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <stdexcept>

#include "base/short_slices.h"
#include "engine/engine.h"
#include "wire/side_filter.h"

namespace r2cc {
namespace {

constexpr auto kBreath = std::chrono::microseconds(100);
constexpr int64_t kTurnNs = msToNs(1);  // reading sockets, before the clock is looked at again
// For what progress threads do not acknowledge: the last copies of a burst, before they seem to stand still; and all of
// RDMA, where nobody else does.
constexpr int64_t kAckBackstopNs = msToNs(5), kAckAllNs = msToNs(1);
// However many threads wait; and a flood takes a fifth of their time. A look may have been long because we did not run.
constexpr int64_t kFetchEveryNs = usToNs(20), kRestPerWork = 4, kMostRestNs = msToNs(1);

// What woke it: a NIC's own index below, a stream's descriptor above (kTagStream).
constexpr uint64_t kTagWake = 1000, kTagLinks = 1001;
constexpr uint64_t kTagDriver = 2000;     // and from here: a NIC whose driver talks
constexpr uint64_t kTagListen = 3000;     // and from here: a NIC whose TCP port somebody called
constexpr uint64_t kTagAckListen = 4000;  // the same for acknowledgements
static_assert(kTagWake > kMaxNics && kTagListen > kTagDriver + kMaxNics && kTagStream > kTagAckListen + kMaxNics);

int msUntil(int64_t then) {
  return static_cast<int>(std::max<int64_t>(0, (then - runNs() + msToNs(1) - 1) / msToNs(1)));
}

void drain(int fd) {
  uint64_t count = 0;
  (void)!read(fd, &count, sizeof(count));  // NOLINT(clang-analyzer-unix.BlockInCriticalSection): O_NONBLOCK
}

}  // namespace

/// False: the kernel takes no more.
bool Engine::watchSockets(size_t nic) {
  const SideChannel& side = shared_.side;
  const int acks = side.ackFds()[nic].get();
  return watch(side.fds()[nic].get(), nic) && watch(side.listenFds()[nic].get(), kTagListen + nic) &&
         watch(side.ackListenFds()[nic].get(), kTagAckListen + nic) && (acks < 0 || ackEpoll_.add(acks, nic));
}

void Engine::watchEverything() {
  bool all = watch(wakeFd_.get(), kTagWake) && watch(links_.fd(), kTagLinks);
  for (size_t nic = 0; nic < shared_.nics.size(); nic++) {
    all = all && watchSockets(nic);
    const LocalNic& local = shared_.nics[nic];
    if (local.inner.ops == nullptr) continue;
    connector_->prepare(local.inner.net, local.dev);
    if (local.inner.ops->openEvents == nullptr) continue;
    all = all && watch(local.inner.ops->openEvents(local.dev), kTagDriver + nic);
    links_.readDriver(nic);  // an engine before us may have left the device lost
  }
  if (!all) throw std::runtime_error("out of file descriptors");
}

/// The NIC's sockets are opened anew. What is waited for goes by file, not by number: the old are taken out first.
bool Engine::rebind(size_t nic) {
  SideChannel& side = shared_.side;
  for (const auto* fds : {&side.fds(), &side.listenFds(), &side.ackListenFds()}) {
    if ((*fds)[nic].valid()) epoll_.remove((*fds)[nic].get());
  }
  if (side.ackFds()[nic].valid()) ackEpoll_.remove(side.ackFds()[nic].get());
  const bool done = side.rebind(shared_.nics[nic], nic);
  if (done) {
    keepOnlyFor(shared_.self.id, side.fds());  // the others' keep what they have
    keepOnlyFor(shared_.self.id, side.ackFds());
  }
  return watchSockets(nic) && done;
}

/// A NIC's device was lost. What was made on it is closed by those who use it, but for the anchors.
void Engine::reopen(size_t nic) {
  struct Found {
    bool done = false;
    NicEvent event;
    int events = -1;
  };
  const auto found = std::make_shared<Found>();
  const auto slow = [found, ops = shared_.nics[nic].inner.ops, dev = shared_.nics[nic].dev] {
    found->done = ops->reopen(dev, &found->event);
    if (found->done) found->events = ops->openEvents(dev);
  };
  services_.apart(slow, [this, nic, found] {
    if (found->done) {
      shared_.info("R2CC: the device of " + shared_.nics[nic].name + " was lost, and is opened anew");
      anchors_.renew(shared_.nics[nic].dev, *connector_, [this](const LanePtr& lane) { connections_.leave(lane); });
      (void)watch(found->events, kTagDriver + nic);  // else its end is seen by its lanes alone
    }
    links_.reopened(nic, found->done, found->event);
  });
}

void Engine::loop() {
  askForShortSlices();
  epoll_event events[16];
  while (!stop_) {
    const int count = epoll_.wait(events, msUntil(shared_.agenda.next()));
    std::unique_lock<std::mutex> lock(mutex_);
    shared_.agenda.catchUp();
    const bool flooded = handle(events, count);
    lock.unlock();
    if (flooded) std::this_thread::sleep_for(kBreath);  // NCCL's threads want the mutex too
  }
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  cpuUs_ = int64_t{cpu.tv_sec} * 1'000'000 + cpu.tv_nsec / 1000;
}

/// True: there was more than could be read in a turn.
bool Engine::handle(const epoll_event* events, int count) {
  std::vector<size_t> ready, refused;
  bool news = false;  // acknowledgements, by far the most of what comes, need no look at everything
  // Links first: what they say makes sense of everything else.
  for (int i = 0; i < count; i++) {
    if (events[i].data.u64 == kTagLinks) links_.read();
  }
  for (int i = 0; i < count; i++) {
    const uint64_t tag = events[i].data.u64;
    if (tag >= kTagDriver && tag < kTagListen) links_.readDriver(tag - kTagDriver);
  }
  for (int i = 0; i < count; i++) {
    const uint64_t tag = events[i].data.u64;
    if (tag == kTagWake) drain(wakeFd_.get());
    if (tag < kTagWake && (events[i].events & EPOLLERR) != 0) refused.push_back(tag);
    if (tag < kTagWake) ready.push_back(tag);
    if (tag >= kTagStream) messages_.readStream(static_cast<int>(tag - kTagStream));
    if (tag >= kTagListen && tag < kTagAckListen) streams_.accept(tag - kTagListen, /*acks=*/false);
    if (tag >= kTagAckListen && tag < kTagStream) streams_.accept(tag - kTagAckListen, /*acks=*/true);
    news |= tag >= kTagWake && tag < kTagStream;
  }
  const bool flooded = receiveAll(std::move(ready));
  driveReplays();
  for (const size_t nic : refused) {  // what was heard since says more
    shared_.side.readErrors(nic, [&](const NicAddress& to, const uint8_t* quote, size_t size) {
      messages_.onRefused(nic, to, quote, size);
    });
  }
  shared_.agenda.catchUp();  // this turn may have stood still itself
  if (const int64_t now = runNs(); news || now >= shared_.agenda.next()) tick(now);
  shared_.peers.flushOutboxes();
  return flooded;
}

/// A little from each socket in turn until all are empty or the turn's time is spent; what is left wakes the engine at
/// once. A flood on one NIC keeps neither the others waiting nor the clock, without which there are no verdicts.
/// True when time ran out.
bool Engine::receiveAll(std::vector<size_t> ready) {
  if (ready.empty()) return false;
  const int64_t until = nowNs() + kTurnNs;
  std::rotate(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(turn_++ % ready.size()), ready.end());
  while (!ready.empty()) {
    for (auto nic = ready.begin(); nic != ready.end();) {
      const auto take = [&](const NicAddress& from, const uint8_t* data, size_t size) {
        messages_.onDatagram(*nic, from, data, size);
      };
      nic = SideChannel::receive(shared_.side.fds()[*nic], take) ? nic + 1 : ready.erase(nic);
      if (nowNs() > until) return !ready.empty();
    }
  }
  return false;
}

/// After a failover: what connections said was done and is not, before the next tick.
void Engine::driveReplays() {
  for (const auto& [key, peer] : shared_.peers) {
    if (!std::exchange(peer->resends, false)) continue;
    for (const auto& [id, connection] : peer->sends) connection->driveReplays();
  }
}

// ---- the clock --------------------------------------------------------------------------------------------------

void Engine::tick(int64_t now) {
  const bool excused = shared_.agenda.begin();
  readAcks();
  shared_.events.flush(nowNs());
  report_.tick(now);
  links_.tick(now);
  announcer_.tick(now);
  locator_.tick(now);
  for (const auto& [key, peer] : shared_.peers) {
    if (excused) peer->lastRound = now;
    tickPeer(*peer, now);
  }
  streams_.endStrangers(now);
  connections_.tick(now);
  status_->tick(now);
  shared_.agenda.end(now);
}

void Engine::tickPeer(Peer& peer, int64_t now) {
  judge_.judgePaths(peer, now);
  rates_.tick(peer, now);
  for (const auto& [id, connection] : peer.sends) connection->tick(now);
  for (const auto& [id, connection] : peer.receivesById) connection->tick(now);
  secondWay_.tick(peer, now);
  if (peer.acksDue.load(std::memory_order_relaxed) > 0 && nowNs() - peer.acksSinceNs >= ackBackstopNs()) {
    for (const Path* path : peer.best(1)) peer.flushAcks(*path);
  }
  judge_.watchSilence(peer, now);
  if (peer.weConnect) connections_.endLingering(peer);
  shared_.agenda.restUntil(restsUntil(peer, now));
}

int64_t Engine::ackBackstopNs() const { return threadsAck_ ? kAckBackstopNs : kAckAllNs; }

/// Until when nobody need look at this peer again; not after now where something is going on.
int64_t Engine::restsUntil(const Peer& peer, int64_t now) const {
  const bool acks = peer.acksDue.load(std::memory_order_relaxed) > 0;
  int64_t until = acks ? now + peer.acksSinceNs + ackBackstopNs() - nowNs() : INT64_MAX;
  bool calm = true;
  for (const auto& path : peer.paths()) calm &= path->state() == PathState::Up || !peer.counts(*path);
  if (!calm) until = now;
  for (const auto& [id, connection] : peer.sends) until = std::min(until, connection->restsUntil(now));
  return until;
}

// ---- acknowledgements in ----------------------------------------------------------------------------------------

/// NCCL's thread holds a connection here, for which the engine may wait with the mutex: never the other way round.
void Engine::fetchAcks() {
  const int64_t now = nowNs();
  if (now < nextAckFetch_.load(std::memory_order_relaxed)) return;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock) return;
  shared_.agenda.catchUp();
  readAcks();
  const int64_t end = nowNs();
  nextAckFetch_ = end + std::clamp(kRestPerWork * (end - now), kFetchEveryNs, kMostRestNs);
}

/// With the mutex held. Takes no connection's ownership.
void Engine::readAcks() {
  epoll_event events[16];
  const int count = ackEpoll_.wait(events, 0);
  for (int i = 0; i < count; i++) {
    const uint64_t tag = events[i].data.u64;
    if (tag >= kTagStream) {
      messages_.readStream(static_cast<int>(tag - kTagStream));
      continue;
    }
    SideChannel::receive(shared_.side.ackFds()[tag], [&](const NicAddress& from, const uint8_t* data, size_t size) {
      messages_.onAcks(tag, from, data, size);
    });
  }
}

}  // namespace r2cc
