#include "rig.h"

#include <algorithm>
#include <chrono>

namespace r2cc::fake {
namespace {

constexpr int kFlowUs = 30;  // between two looks at streams that have just moved
constexpr int kIdleUs = 200;
constexpr int kSoonIdle = 30;  // rounds: after about a millisecond

}  // namespace

Rig::Rig(const RigOptions& options)
    : fabric(options.hosts,
             Play{options.needsAck, options.anyOrder, options.drains, options.gpu, options.plain,
                  options.plain && options.confirms, options.devices, options.samples,
                  // Few messages are on their way, or a late machine makes it look so: then `balance` cuts them.
                  options.slots < kSlots || options.mode == 2},
             options.seed),
      resort(options.hosts, Play{true, false, false, false, false}, options.seed + 1),
      options_(options) {
  for (int host = 0; host < options.hosts; host++) {
    if (options.window > 0) health(host).scheduleConnects(1, {1, options.window, -1});
    engines_.push_back(makeEngine(host));
  }
}

std::unique_ptr<Engine> Rig::makeEngine(int host) {
  Config config;
  config.holdNs = options_.holdNs;
  config.mode = options_.mode;
  config.probationNs = options_.probationNs;
  config.damping = options_.damping;
  config.eventFile = options_.eventFile;
  const std::string desk = options_.desk + "/h" + std::to_string(host);
  if (!options_.desk.empty()) config.statusDir = desk + "/status", config.controlDir = desk + "/control";
  const auto at = static_cast<size_t>(host);
  config.tls = options_.tls.empty() ? "" : options_.tls.at(at);
  config.tlsSecretFile = options_.secretFiles.empty() ? "" : options_.secretFiles.at(at);
  const auto info = [this, host](const std::string& text) { options_.log(host, text); };
  const auto warn = [this, host](const std::string& text) {
    if (options_.log) options_.log(host, text);
    const std::lock_guard<std::mutex> lock(mutex_);
    warnings_.push_back(text);
  };
  return std::make_unique<Engine>(
      config, fabric.inner(), nics(host), warn,
      [this, host](size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, SideChannel::Way way) {
        return passes(host, nic, to, bytes, way);
      },
      options_.log ? Engine::Warn(info) : nullptr, nullptr, &boards_[static_cast<size_t>(host)]);
}

void Rig::renewEngine(int host) {
  endEngine(host);
  engines_[static_cast<size_t>(host)] = makeEngine(host);
}

Rig::~Rig() {
  stop();
  closeStreams();
  engines_.clear();
}

std::vector<LocalNic> Rig::nics(int host) {
  std::vector<LocalNic> out;
  for (int rail = 0; rail < options_.rails; rail++) {
    LocalNic nic;
    nic.name = options_.desk.empty() ? "lo" : "rail" + std::to_string(rail);
    nic.ifindex = 1000000U + static_cast<unsigned>(rail);  // no such interface: netlink says nothing about it
    nic.dev = options_.devices ? host * kDevicesOfHost + rail : rail;
    nic.assumedDown = host == 0 && rail == options_.assumedDown;
    nic.address.dev = static_cast<uint8_t>(rail);
    nic.address.domain = options_.domains.empty() ? nic.address.dev : options_.domains.at(static_cast<size_t>(rail));
    nic.late = rail == options_.late;
    if (nic.late) nic.name = "late";  // no such interface, either: it gets an address from tests alone
    if (!nic.late) nic.address.family = AF_INET, nic.address.prefix = 24;
    if (!nic.late) nic.address.ip = {127, 0, static_cast<uint8_t>(rail + 1), static_cast<uint8_t>(host + 1)};
    out.push_back(nic);
  }
  if (options_.lastResort) {
    LocalNic nic = out.back();
    nic.ifindex++;
    nic.dev = 0;
    nic.inner = resort.inner();
    nic.ctx = resort.context(host);
    nic.address.domain = ++nic.address.dev;
    nic.address.flags = kLastResort;
    nic.address.ip[2]++;
    out.push_back(nic);
  }
  return out;
}

bool Rig::passes(int host, size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, SideChannel::Way way) {
  const bool udp = way == SideChannel::Way::Udp;
  bool lost = udp ? loseUdp || loseUdpOf == host
                  : loseStreams || fabric.standsAt({host, static_cast<int>(nic)});  // lanes are TCP as well
  if (udp && spy) spy(host, to, bytes);
  const auto parsed = Parsed::open(bytes.data(), bytes.size());
  if (parsed) {
    parsed->forEach([&](Type type, Reader& reader) {
      seen_[static_cast<size_t>(type) % seen_.size()] += udp ? 1 : 0;
      if (udp && (type == Type::Freeze || type == Type::Switch)) {
        uint64_t connection = 0;
        uint32_t epoch = 0;
        reader(connection), reader(epoch);
        const std::lock_guard lock(mutex_);
        decided_.emplace(type, connection, epoch);
      }
      lost |= lose_[static_cast<size_t>(type) % lose_.size()];
    });
  }
  const bool special = options_.lastResort && static_cast<int>(nic) == options_.rails;
  if (special) return !lost && resort.carries({host, 0}, {to.ip[3] - 1, 0});
  return !lost && fabric.carries({host, static_cast<int>(nic)}, {to.ip[3] - 1, to.ip[2] - 1});
}

size_t Rig::decided(Type type) const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(decided_.begin(), decided_.end(), [&](const auto& d) { return std::get<0>(d) == type; }));
}

Stream& Rig::stream(int from, int to, int rail, uint64_t messages) {
  const uint64_t seed = options_.seed * 1000 + streams_.size();
  const size_t each = options_.bytes;
  const Sizes sizes = each == 0 ? options_.sizes : [each](uint64_t) { return each; };
  InnerHandle handle{};
  Stream s{nullptr, nullptr, from, to};
  const EndOf receiver{engine(to), context(to), rail, seed, messages, options_.slots, sizes};
  s.receiver = makeReceiver(receiver, handle, options_.gpu ? &fabric : nullptr);
  s.sender =
      makeSender({engine(from), context(from), rail, seed, messages, options_.slots, sizes, options_.lends}, handle);
  streams_.push_back(std::move(s));
  return streams_.back();
}

void Rig::start() {
  for (int host = 0; host < options_.hosts; host++) threads_.emplace_back([this, host] { progress(host); });
}

void Rig::progress(int host) {
  int idle = 0;  // rounds in which nothing moved: whoever waits for a verdict need not ask as often as a stream in flow
  while (!stop_) {
    bool moved = false;
    for (const Stream& s : streams_) {
      if (paused_[static_cast<size_t>(host)]) break;
      if (s.from == host) moved |= s.sender->step();
      if (s.to == host) moved |= s.receiver->step();
    }
    idle = moved ? 0 : idle + 1;
    if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(idle > kSoonIdle ? kIdleUs : kFlowUs));
  }
}

void Rig::stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  stop_ = false;
}

void Rig::pause(int host, bool on) {
  paused_[static_cast<size_t>(host)] = on;
  fabric.freeze(host, on);
}

void Rig::closeStreams() {
  for (const Stream& s : streams_) {
    if (engines_[static_cast<size_t>(s.from)] != nullptr) s.sender->close();
    if (engines_[static_cast<size_t>(s.to)] != nullptr) s.receiver->close();
  }
  streams_.clear();
}

bool Rig::within(int64_t limitNs, const std::function<bool()>& what) {
  const int64_t end = nowNs() + limitNs;
  while (!what()) {
    if (nowNs() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

bool Rig::allDone(int64_t limitNs) const {
  const auto over = [](const End& end) { return end.state() == End::State::Done || end.state() == End::State::Failed; };
  return within(limitNs, [&] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [&](const Stream& s) { return over(*s.sender) && over(*s.receiver); });
  });
}

uint64_t Rig::delivered() const {
  uint64_t sum = 0;
  for (const Stream& s : streams_) sum += s.receiver->done();
  return sum;
}

std::vector<std::string> Rig::warnings() const {
  for (const auto& engine : engines_) {
    if (engine != nullptr) engine->flushAtExit();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return warnings_;
}

std::string Rig::problems() const {
  std::string out;
  for (size_t i = 0; i < streams_.size(); i++) {
    const Stream& s = streams_[i];
    const std::string which = "stream " + std::to_string(i) + " ";
    if (!s.receiver->wrong().empty()) out += which + s.receiver->wrong() + "\n";
    for (const auto& [end, name] : {std::pair{s.sender.get(), "sender"}, std::pair{s.receiver.get(), "receiver"}}) {
      if (end->state() != End::State::Done) out += which + name + " stopped at " + std::to_string(end->done()) + "\n";
    }
  }
  for (const std::string& v : fabric.violations()) out += v + "\n";
  for (const std::string& v : resort.violations()) out += v + "\n";
  // Where the test itself loses UDP, that is said sooner or later.
  const bool udpLost = loseUdp || loseUdpOf >= 0;
  for (const std::string& w : warnings()) {
    if (!udpLost || w.find("UDP does not pass") == std::string::npos) out += w + "\n";
  }
  return out;
}

}  // namespace r2cc::fake
