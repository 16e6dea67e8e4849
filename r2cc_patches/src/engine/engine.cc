// The engine's life, and NCCL's side of it. Its thread is in engine_thread.cc.
#include "engine/engine.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/process_life.h"
#include "wire/side_filter.h"

namespace r2cc {
namespace {

constexpr int64_t kLingerAtEndNs = msToNs(2000), kLingerIfAbortedNs = msToNs(150);
constexpr int64_t kLastWordsNs = msToNs(200);

std::string missingInLog(uint64_t lines) {
  return "R2CC: " + std::to_string(lines) + " lines are missing here: the reader of NCCL's log is too slow";
}

/// NICs of the inner net's are called by it.
std::vector<LocalNic> withInner(std::vector<LocalNic> nics, const InnerNet& inner) {
  for (LocalNic& nic : nics) {
    if (nic.inner.net == nullptr && (nic.address.flags & kSideOnly) == 0) nic.inner = inner;
  }
  return nics;
}

int openWake() {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) throw std::runtime_error("out of file descriptors");
  return fd;
}

}  // namespace

// ---- beginning and end ------------------------------------------------------------------------------------------

Engine::Engine(const Config& config, const InnerNet& inner, std::vector<LocalNic> nics, Warn warn,
               SideChannel::Filter filter, Warn info, Distance distance, HealthBoard* health)
    : config_(config),
      log_("r2cc-log", missingInLog),
      shared_(
          withInner(std::move(nics), inner), std::move(filter), config.eventFile, log_.through(std::move(warn)),
          info ? log_.through(std::move(info)) : [](const std::string&) {}, config.holdNs,
          Probation{config.probationNs, config.damping}, encryptionOf(config.tls, config.tlsSecretFile)),
      wakeFd_(openWake()),
      report_(shared_, health),
      rates_(shared_, report_, std::min(config.mode, kHighestMode) >= 2),
      refusals_(shared_, std::min(config.mode, kHighestMode)) {
  for (const LocalNic& nic : shared_.nics) {
    threadsAck_ &= nic.inner.ops == nullptr || nic.inner.ops->needsAck;
    addressed_.push_back(nic.address.family != 0 || nic.late);
  }
  shared_.self.id = randomId();
  shared_.self.key = randomKey();
  keepOnlyFor(shared_.self.id, shared_.side.fds());
  keepOnlyFor(shared_.self.id, shared_.side.ackFds());
  connector_ = std::make_unique<Connector>([this](const LanePtr& lane, bool ok) { onLaneMade(lane, ok); });
  report_.open();
  status_ = std::make_unique<Status>(
      StatusOptions{config.statusDir, config.controlDir, config.build, config.job, inner.net->name, config.mode},
      shared_, tally_, report_, drains_, admission_.dropped());
  startRecorder();
  lend(std::move(distance));
  watchEverything();
  somethingRuns(1);
  thread_ = std::thread([this] { loop(); });
  pthread_setname_np(thread_.native_handle(), "r2cc-engine");
}

Engine::~Engine() {
  const bool aborts = awaitLingering();
  if (aborts) connector_->hurry();
  stop_ = true;
  services_.wake();
  thread_.join();
  somethingRuns(-1);
  report_.close();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_->close();
    connections_.shutdown();
  }
  helpers_.end();
  anchors_.close(*connector_);
  const uint64_t strangers = connector_->refused();
  connector_.reset();  // closes what was just given to it; may still call onLaneMade
  reportEnd(strangers);
}

void Engine::reportEnd(uint64_t strangers) {
  const Connections::Totals totals = connections_.totals();
  const Dropped& dropped = admission_.dropped();
  const uint64_t unread = admission_.unread();  // read once: a stranger may still be sending, and the sum must agree
  auto line = shared_.events.line("net_end");
  const auto add = [&](const char* key, uint64_t value) { line.add(key, static_cast<int64_t>(value)); };
  add("failovers", totals.failovers), add("failbacks", totals.failbacks);
  add("acks", totals.acks), add("probes", judge_.probes());
  line.add("engine_cpu_us", cpuUs_);
  add("dropped", dropped.sum() + unread);
  add("refused_connects", strangers);
  add("dropped_malformed", dropped.malformed);
  add("dropped_stranger", dropped.stranger);
  add("dropped_forged", dropped.forged);
  add("dropped_replayed", dropped.replayed);
  add("dropped_refusals", dropped.refusals);
  add("dropped_by_kernel", unread);
}

void Engine::abort(bool aborts) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_.abort(aborts);
}

void Engine::flushAtExit() {
  const int64_t end = nowNs() + Scribe::kPatienceNs;
  (void)log_.flush(Scribe::kPatienceNs);
  (void)shared_.events.flushAll(std::max<int64_t>(end - nowNs(), 0));
}

std::string Engine::endLine() {
  const int64_t end = nowNs() + kLastWordsNs;
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  while (!lock && nowNs() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)lock.try_lock();
  }
  return lock ? status_->endLine() : "";
}

void Engine::sayOnStderr(const std::string& line) {
  log_.through([](const std::string& said) { (void)!write(STDERR_FILENO, said.data(), said.size()); })(line + "\n");
  services_.said();
}

void Engine::startRecorder() {
  if (config_.traceFile.empty()) return;
  FlightOptions options{config_.traceFile, config_.traceBytes, shared_.self.id, config_.mode, {}, shared_.warn};
  for (const LocalNic& nic : shared_.nics) options.nics.push_back(nic.name);
  shared_.flight = std::make_unique<Flight>(std::move(options));
}

/// What connections are lent.
void Engine::lend(Distance distance) {
  services_.mode = std::min(config_.mode, kHighestMode);
  services_.connector = connector_.get(), services_.events = &shared_.events, services_.flight = shared_.flight.get();
  services_.tally = &tally_;
  services_.local = &shared_.nics, services_.anchors = &anchors_, services_.distance = std::move(distance);
  services_.holdNs = config_.holdNs;
  services_.wake = [fd = wakeFd_.get()] {
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof(one));
  };
  services_.fetchAcks = [this] { fetchAcks(); };
  services_.warn = shared_.warn, services_.info = shared_.info;
  services_.host = refusals_.here().where, services_.firstFailure = &firstFailure_;
  services_.said = [this] {
    if (!logHangs_ && !log_.flush(kLastWordsNs)) logHangs_ = true;
  };
  services_.settled = &settled_;
  services_.apart = [this](Helpers::Work slow, Helpers::Work then) {
    helpers_.run(std::move(slow), [this, then = std::move(then)] {
      const std::lock_guard<std::mutex> lock(mutex_);
      then();
      shared_.peers.flushOutboxes();
      settled_.notify_all();
    });
  };
  services_.misplaced = [this](const Lane& lane, bool forGood) { announcer_.onMisplaced(lane, forGood); };
  services_.schedule = [this](uint64_t asked) { return report_.schedule(asked); };
  services_.scheduleConnection = [this] { return report_.scheduleConnection(); };
}

/// What was sent and not acknowledged when the last communicator ends: milliseconds, unless a fault is being dealt
/// with. True: it ends by an abort, which waits for little.
bool Engine::awaitLingering() {
  const auto ask = [this](const auto& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return what(connections_);
  };
  const bool aborts = ask([](const Connections& all) { return all.aborts(runNs()); });
  const int64_t begin = runNs(), end = begin + (aborts ? kLingerIfAbortedNs : kLingerAtEndNs);
  const int64_t lentEnd = aborts ? end : std::max(end, begin + shared_.holdNs);
  const auto all = [](const Connections& of) { return of.anyLingers(); };
  const auto lent = [](const Connections& of) { return of.anyOwesLent(); };
  while (runNs() < end && ask(all)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (runNs() < lentEnd && ask(lent)) {
    services_.info("R2CC: a peer has not taken yet what the last collectives sent: waiting for up to " +
                   std::to_string((lentEnd - runNs()) / 1000000) + " ms (R2CC_HOLD_MS)");
  }
  while (runNs() < lentEnd && ask(lent)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return aborts;
}

void Engine::onLaneMade(const LanePtr& lane, bool ok) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lane->connection == nullptr) {
    if (anchors_.onMade(lane, ok)) connections_.onAnchor(lane);
    return;
  }
  if (!connections_.has(lane->connection)) return;
  lane->connection->onLaneMade(lane, ok);
  lane->connection->peer.flushOutbox();
}

void Engine::reportLink(size_t nic, bool up) {
  const std::lock_guard<std::mutex> lock(mutex_);
  links_.report(nic, up);
}

void Engine::reportAddress(size_t nic, const NicAddress& address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  links_.reportAddress(nic, address);
}

// ---- NCCL's side ------------------------------------------------------------------------------------------------

ncclResult_t Engine::listen(void* ctx, int dev, void* handle, void** listenComm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  anchors_.make(shared_.nics, ctx, *connector_);
  ConnectHandle out;
  out.process = shared_.self.id;
  out.key = shared_.self.key;
  out.dev = static_cast<uint8_t>(dev);
  out.listen = nextId_++;
  // The device's own NIC first; then others, the last interfaces (side-only) before the first.
  const std::vector<NicAddress> all = shared_.addresses();
  for (const NicAddress& nic : all) {
    if (nic.dev == dev) out.nics.push_back(nic);
  }
  for (auto nic = all.rbegin(); nic != all.rend() && out.nics.size() < ConnectHandle::kAddresses; ++nic) {
    if (nic->dev != dev) out.nics.push_back(*nic);
  }
  describeIn(out, refusals_.here());
  *listenComm = &listeners_.open(out.listen, out.dev, ctx);
  writeHandle(out, handle);
  return ncclSuccess;
}

ncclResult_t Engine::connect(void* ctx, int dev, void* handle, void** sendComm) {
  *sendComm = nullptr;
  return afterItsLine(tryConnect(ctx, dev, handle, sendComm));
}

/// A rank that does not fit is told in the log, which is written by another thread; NCCL's error may end the process
/// before that. Without the mutex.
ncclResult_t Engine::afterItsLine(ncclResult_t result) {
  if (result == ncclInvalidUsage) (void)log_.flush(kLastWordsNs);
  return result;
}

/// NCCL calls again and again with the same handle, in whose last bytes we keep which connection it is: a number, as it
/// may have been given up meanwhile.
ncclResult_t Engine::tryConnect(void* ctx, int dev, void* handle, void** sendComm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  shared_.agenda.catchUp();
  anchors_.make(shared_.nics, ctx, *connector_);
  ConnectHandle to;
  const uint8_t version = openHandle(handle, to);
  if (version == 0) {
    shared_.warn("R2CC: " + withoutR2cc(refusals_.here(), handle));
    return ncclInvalidUsage;
  }
  uint64_t id = 0;
  auto* state = static_cast<uint8_t*>(handle) + kHandleStateAt;
  memcpy(&id, state, sizeof(id));
  const ncclResult_t fits = id != 0 ? ncclSuccess : refusals_.check(to, version);
  if (fits != ncclSuccess) return fits == ncclInProgress ? ncclSuccess : fits;
  Peer* known = shared_.peers.find(to.process, /*weConnect=*/true);
  Peer& peer = known != nullptr
                   ? *known
                   : shared_.peers.add(to.process, /*weConnect=*/true,
                                       PairKey::of(to.key, shared_.self.id, to.process, shared_.self.encryption.get()));
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
  const auto made =
      std::make_shared<SendConnection>(services_, peer, nextId_++, ctx, to.listen, static_cast<uint8_t>(dev), to.dev);
  connections_.add(made);
  made->tick(runNs());
  peer.flushOutbox();
  return made->id;
}

ncclResult_t Engine::accept(void* listenComm, void** recvComm) {
  *recvComm = nullptr;
  return afterItsLine(tryAccept(listenComm, recvComm));
}

ncclResult_t Engine::tryAccept(void* listenComm, void** recvComm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Listen& listen = *static_cast<Listen*>(listenComm);
  auto& arrived = listen.arrived;
  if (arrived.empty()) return listen.refused ? ncclInvalidUsage : ncclSuccess;
  const std::shared_ptr<RecvConnection> first = arrived.front();
  if (!first->over() && first->state() != ConnectionState::Active) return ncclSuccess;
  arrived.pop_front();
  if (first->over()) return connections_.close(*first), ncclRemoteError;
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

void Engine::closeSend(void* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_.close(*static_cast<SendConnection*>(static_cast<Connection*>(comm)));
}

void Engine::closeRecv(void* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_.close(*static_cast<RecvConnection*>(static_cast<Connection*>(comm)));
}

void Engine::closeListen(void* listenComm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& never : listeners_.close(static_cast<Listen*>(listenComm)->id)) connections_.close(*never);
}

}  // namespace r2cc
