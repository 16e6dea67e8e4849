#include "net/net_process.h"

#include <net/if.h>

#include <stdexcept>
#include <utility>

#include "base/file_limit.h"
#include "base/world_rank.h"
#include "inner/net_ib_ops.h"
#include "net/assumed_down.h"
#include "net/nccl_profiler.h"
#include "net/r2cc_net.h"
#include "nic/domain.h"

extern const char r2ccBuildId[];  // stamp/build_id.cc
extern ncclNet_t ncclNetIb;
extern ncclNet_t ncclNetSocket;
extern const r2cc::InnerOps r2ccNetSocketOps;

// Of another plugin (r2ccTakeOtherNet).
ncclNet_t r2ccOtherNet;
namespace {
r2cc::InnerOps otherOps;
}

ncclNet_t* r2ccTakeOtherNet(const ncclNet_t& net, const r2cc::InnerOps& ops) {
  r2ccOtherNet = net;
  otherOps = ops;
  return &r2ccOtherNet;
}

namespace r2cc {

const InnerOps* innerOps(const ncclNet_t* net) {
  if (net == &ncclNetIb) return &r2ccNetIbOps;
  if (net == &r2ccOtherNet) return otherOps.fence == nullptr ? nullptr : &otherOps;
  return net == &ncclNetSocket ? &r2ccNetSocketOps : nullptr;
}

InnerNet innerNet(const ncclNet_t* net) { return {net == &ncclNetIb ? &r2ccNetIb : net, innerOps(net)}; }

namespace {

constexpr size_t kSpecialNics = 2;  // a last resort and a side-only interface

/// `late`: a bit for each device that may get its address later.
std::vector<LocalNic> localNics(const InnerNet& inner, uint64_t late) {
  std::vector<LocalNic> nics;
  int count = 0;
  if (inner.net->devices(&count) != ncclSuccess) return nics;
  for (int dev = 0; dev < count && nics.size() < kMaxNics - kSpecialNics; dev++) {
    ncclNetProperties_t props{};
    if (inner.net->getProperties(dev, &props) != ncclSuccess) break;
    char interface[IFNAMSIZ] = "";
    const bool other = inner.ops->interfaceOf != nullptr && inner.ops->interfaceOf(dev, interface, sizeof(interface));
    nics.push_back(findLocalNic(other ? interface : props.name, static_cast<uint8_t>(dev), 0));
    nics.back().inner = inner;
    nics.back().dev = dev;
    nics.back().rateGbit = props.speed / 1000.0;
    const bool none = nics.back().address.family == 0 && nics.back().ifindex != 0;
    nics.back().late = none && (late >> dev & 1) != 0;
  }
  return nics;
}

/// Behind the devices: the last resort, and the interface for the side channel alone, unless one is the other.
void addSpecialNics(std::vector<LocalNic>& nics, const Config& config, const LastResort* lastResort) {
  if (lastResort != nullptr) nics.push_back(lastResort->nic());
  const bool resort = lastResort != nullptr && lastResort->nic().name == config.sideInterface;
  if (!config.sideInterface.empty() && !resort && nics.size() < kMaxNics) {
    nics.push_back(findLocalNic(config.sideInterface, static_cast<uint8_t>(nics.size()), kSideOnly));
  }
}

std::vector<NicName> nicNames(const InnerNet& inner) {
  std::vector<NicName> names;
  int count = 0;
  if (inner.net->devices(&count) != ncclSuccess) return names;
  for (int dev = 0; dev < count; dev++) {
    ncclNetProperties_t props{};
    if (inner.net->getProperties(dev, &props) != ncclSuccess) break;
    names.push_back({props.name, props.pciPath == nullptr ? "" : props.pciPath});
  }
  return names;
}

/// Throws std::invalid_argument where R2CC_ASSUME_DOWN is not what it should be.
void assumeDown(std::vector<LocalNic>& nics, const std::vector<NicName>& devices, const Config& config) {
  const std::string host = hostName();
  for (const std::string& name :
       assumedDown(config.assumeDown, {host, host.substr(0, host.find('.')), config.hostId})) {
    size_t nic = 0;
    while (nic < nics.size() && nics[nic].name != name && devices[nic].name != name) nic++;
    if (nic == nics.size())
      throw std::invalid_argument(std::string("R2CC_ASSUME_DOWN: ").append(host).append(" has no NIC ").append(name));
    nics[nic].assumedDown = true;
  }
}

/// What the topology file says goes before what the driver says: the lab's interfaces do not know their rates.
void takeRates(std::vector<LocalNic>& nics, const Distances& distances) {
  for (size_t i = 0; i < nics.size(); i++) {
    if (const double rate = distances.place(i).rateGbit; rate > 0) nics[i].rateGbit = rate;
  }
}

/// A file of places says nothing of it: what it describes may hang on no bus.
void takeDomains(std::vector<LocalNic>& nics, const std::vector<NicName>& devices) {
  std::vector<NicName> names;
  names.reserve(nics.size());
  for (size_t i = 0; i < nics.size(); i++) names.push_back({nics[i].name, devices[i].pciPath});
  const std::vector<uint8_t> domains = failureDomains(names);
  for (size_t i = 0; i < nics.size(); i++) nics[i].address.domain = domains[i];
}

/// The NICs that fail with another, for the log: "eth1 with eth0".
std::string describeDomains(const std::vector<LocalNic>& nics) {
  std::string out;
  for (size_t i = 0; i < nics.size(); i++) {
    const size_t domain = nics[i].address.domain;
    if (domain != i) out += (out.empty() ? "" : ", ") + nics[i].name + " with " + nics[domain].name;
  }
  return out;
}

/// The devices that stay as they are in stock, by name: those without a global address, and those beyond kMaxNics.
std::string unprotected(const std::vector<LocalNic>& nics, const std::vector<NicName>& devices) {
  std::string out;
  for (size_t i = 0; i < devices.size(); i++) {
    if (i < nics.size() && (nics[i].address.family != 0 || nics[i].late)) continue;
    out += (out.empty() ? "" : ", ") + devices[i].name;
    if (i < nics.size() && nics[i].name != devices[i].name) out += " (" + nics[i].name + ")";
  }
  return out;
}

}  // namespace

NetProcess& NetProcess::instance() {
  static NetProcess& p = *new NetProcess;
  return p;
}

void NetProcess::warn(const std::string& text) const {
  if (log_ != nullptr) log_(NCCL_LOG_WARN, NCCL_NET, "r2cc", 0, "%s", text.c_str());
}

void NetProcess::info(const std::string& text) const {
  if (log_ != nullptr) log_(NCCL_LOG_INFO, NCCL_NET, "r2cc", 0, "%s", text.c_str());
}

/// A child of a process that uses the net has none of its threads, and its locks may be held for good: NCCL's own nets
/// serve it, as they would without us.
ncclResult_t NetProcess::initInChild(ncclNet_t* net, const LastResort::Init& init, void** ctx) {
  if (usersInChild_++ == 0) inner_ = innerNet(net);
  return net->init(ctx, init.commId, init.config, init.log, init.profiler);
}

ncclResult_t NetProcess::init(ncclNet_t* net, void** ctx, uint64_t commId, ncclNetCommConfig_t* config,
                              ncclDebugLogger_t log, ncclProfilerCallback_t profiler) {
  if (inChild()) return initInChild(net, {commId, config, log, profiler}, ctx);
  const std::lock_guard<std::mutex> lock(mutex_);
  log_ = log;
  NcclProfiler::use(profiler);
  const LastResort::Init given{commId, config, log, NcclProfiler::call};
  if (users_ == 0) inner_ = innerNet(net);
  if (inner_.ops != innerOps(net)) {
    warn(std::string("R2CC: this process already uses the net ") + inner_.net->name + ", so not " + net->name);
    return ncclSystemError;
  }
  const ncclResult_t result = inner_.net->init(ctx, commId, config, log, NcclProfiler::call);
  if (result != ncclSuccess) return result;
  if (users_ == 0 && start(given) != ncclSuccess) {
    (void)inner_.net->finalize(*ctx);
    return ncclInvalidUsage;
  }
  users_++;
  return ncclSuccess;
}

/// Fails for a setting that makes no sense, and for nothing else: where the engine cannot start, NCCL's own net goes
/// on.
ncclResult_t NetProcess::start(const LastResort::Init& init) {
  int devices = 0;  // of IB on a host of sockets: NCCL takes the next net
  if (inner_.net->devices(&devices) == ncclSuccess && devices == 0) return ncclSuccess;
  raiseFileLimit();
  Config settings = Config::fromEnvironment();
  settings.build = r2ccBuildId;
  quiet_ = settings.quiet;
  encrypts_ = settings.mayNotBePlain();
  try {
    makeEngine(settings, init);
  } catch (const std::invalid_argument& problem) {
    warn("R2CC: " + std::string(problem.what()));
    if (!encrypts_) return ncclInvalidUsage;
    bar();
  } catch (const std::exception& problem) {
    end();
    warn(std::string("R2CC: cannot start: ") + problem.what() +
         (encrypts_ ? "" : ". This process is passed through unwrapped, as stock"));
    if (encrypts_) bar();
  }
  if (settings.mode > kHighestMode) {
    warn("R2CC: R2CC_MODE=" + std::to_string(settings.mode) + " is not in this version; running mode " +
         std::to_string(kHighestMode));
  }
  describe(settings.mode, nicNames(inner_));
  return ncclSuccess;
}

/// An init that fails would have NCCL take another net, which encrypts nothing. So it works, and nothing is connected.
void NetProcess::bar() {
  barred_ = true;
  warn("R2CC: R2CC_TLS is set and nothing can be encrypted (see above), so nothing is connected");
}

bool NetProcess::refusesPlain(int dev) {
  if (!encrypts_ || barred_) return barred_;
  if (inner_.net != &ncclNetSocket) return false;
  ncclNetProperties_t props{};
  const bool named = inner_.net->getProperties(dev, &props) == ncclSuccess;
  warn("R2CC: R2CC_TLS=1, and " + std::string(named ? props.name : "a NIC") +
       " would go unencrypted, so it is not connected: " +
       (inChild() ? "this is a forked child, which runs without R2CC. Start it by exec"
                  : "it has no usable IP address (IPv6 link-local does not count). NCCL_SOCKET_IFNAME leaves it out"));
  return true;
}

/// Once, for those who read what is covered.
void NetProcess::sayEncryption(const Config& settings) const {
  if (!settings.mayNotBePlain()) return;
  const bool sockets = inner_.net == &ncclNetSocket;
  std::string line = "R2CC: R2CC_TLS=1: encrypted are ";
  line += sockets ? "data and the side channel" : "the side channel and a last resort's sockets";
  line += settings.tlsSecretFile.empty() ? ", by the key that NCCL's bootstrap carries" : ", by R2CC_TLS_SECRET_FILE";
  if (!sockets) line += std::string("; data over ") + inner_.net->name + " is not: R2CC cannot encrypt it";
  info(line);
}

void NetProcess::makeEngine(const Config& settings, const LastResort::Init& init) {
  const bool adds = inner_.ops != nullptr && inner_.ops->addDown != nullptr;
  const uint64_t late = adds ? inner_.ops->addDown() : 0;
  const std::vector<NicName> devices = nicNames(inner_);
  distances_ = Distances(devices, settings.topologyFile, hostName(), warner());
  info("R2CC: NIC distances from " + (distances_.fromFile() ? settings.topologyFile : "sysfs") + ": " +
       distances_.describe());
  std::vector<LocalNic> nics = localNics(inner_, late);
  takeRates(nics, distances_);
  takeDomains(nics, devices);
  const std::string joined = describeDomains(nics);
  if (!joined.empty())
    info("R2CC: NICs that fail together: " + joined + "; one is the other's backup only where there is no third");
  assumeDown(nics, devices, settings);
  const std::string plain = unprotected(nics, devices);
  if (!plain.empty()) {
    warn("R2CC: " + plain +
         ": no usable IP address (IPv6 link-local does not count), so passed through unwrapped, as "
         "stock: faults of these NICs are not survived. An address on each would change that");
  }
  lastResort_ = LastResort::make(settings, init, nics, warner());
  addSpecialNics(nics, settings, lastResort_.get());
  const auto distance = [this](size_t a, size_t b) { return distances_.distance(a, b); };
  engine_ = std::make_unique<Engine>(
      settings, inner_, std::move(nics), warner(), nullptr, [this](const std::string& t) { info(t); }, distance,
      &healthBoard());
  if (lastResort_ != nullptr) lastResort_->warnThrough(engine_->warner());
  sayEncryption(settings);
}

void NetProcess::describe(int mode, const std::vector<NicName>& devices) {
  path_ = {r2ccBuildId, mode, inner_.net->name, {}, 0, 0, 0};
  for (size_t dev = 0; dev < devices.size(); dev++) {
    path_.nics.push_back(devices[dev].name);
    if (protects(static_cast<int>(dev))) path_.protectedNics++;
  }
}

void NetProcess::sayInPath() {
  const std::lock_guard<std::mutex> lock(mutex_);
  sayInPathLocked();
}

void NetProcess::sayInPathLocked() {
  path_.protectedConnections = protectedConnections_;
  path_.connections = path_.protectedConnections + plainConnections_;
  info(inPathLine(path_));
}

ncclResult_t NetProcess::finalize(void* ctx) {
  if (inChild()) return usersInChild_ > 0 && usersInChild_-- > 0 ? inner_.net->finalize(ctx) : ncclSuccess;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (users_ > 0 && --users_ == 0) {
    if (engine_ != nullptr && worldRank() <= 0) sayInPathLocked();
    if (engine_ != nullptr) sayEnd();
    end();
  }
  return inner_.net->finalize(ctx);
}

void NetProcess::end() {
  if (lastResort_ != nullptr) lastResort_->warnThrough(warner());  // a lane of it may be closed after the engine's end
  engine_.reset();
  lastResort_.reset();
}

/// On stderr, for those who set nothing: by rank 0 alone. Where no launcher says which that is, in NCCL's log.
void NetProcess::sayEnd() {
  const int rank = worldRank();
  if (quiet_ || rank > 0) return;
  const std::string line = engine_->endLine();
  if (line.empty()) return;
  if (rank < 0) return info(line);
  engine_->sayOnStderr(line);
}

/// The process ends with communicators open: what was said until now is written, and nothing else is done.
void NetProcess::atEnd() {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock || engine_ == nullptr) return;
  sayEnd();
  engine_->flushAtExit();
}

void NetProcess::abort(bool aborts) {
  if (inChild()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (engine_ != nullptr) engine_->abort(aborts);
}

void NetProcess::expectGpuMemory(int type, size_t size) {
  if (lastResort_ != nullptr && type == NCCL_PTR_CUDA) lastResort_->expect(size);
}

}  // namespace r2cc
