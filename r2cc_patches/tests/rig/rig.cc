#include "rig.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace r2cc::fake {
namespace {

constexpr uint8_t kPoison = 0xa5;   // what a receive buffer holds when nobody may write to it
constexpr uint8_t kReused = 0xee;   // what a send buffer holds once NCCL may use it for something else
constexpr size_t kGuardBytes = 64;  // checked for late writes
constexpr int kFlowUs = 30;  // between two looks at streams that have just moved
constexpr int kIdleUs = 200;
constexpr int kSoonIdle = 30;  // rounds: after about a millisecond

uint64_t mix(uint64_t x) {
  x ^= x >> 33, x *= 0xff51afd7ed558ccd, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

/// Mostly small; empty ones, odd ones, and now and then more than a datagram, a page, a socket chunk.
size_t sizeOf(uint64_t seed, uint64_t number) {
  if (seed >> kSizeAt != 0) return seed >> kSizeAt;
  static constexpr size_t kSizes[] = {0, 1, 7, 8, 64, 100, 512, 1000, 1024, 1500, 2048, 4096, 63, 9, 16384};
  const uint64_t pick = mix(seed * 1000003 + number);
  if (pick % 61 == 0) return kSlotBytes;
  return kSizes[pick % std::size(kSizes)];
}

/// The payload of a message: its number first, then bytes that depend on stream, number and position.
std::vector<uint8_t> payload(uint64_t seed, uint64_t number) {
  std::vector<uint8_t> out(sizeOf(seed, number));
  uint64_t word = number;
  for (size_t i = 0; i < out.size(); i += 8) {
    memcpy(out.data() + i, &word, std::min<size_t>(8, out.size() - i));
    word = mix(seed ^ (number << 20) ^ i);
  }
  return out;
}

bool allAre(const uint8_t* data, size_t size, uint8_t value) {
  return std::all_of(data, data + size, [&](uint8_t b) { return b == value; });
}

class Sender final : public End {
 public:
  Sender(Engine& engine, void* ctx, int dev, uint64_t seed, uint64_t messages, const InnerHandle& handle)
      : End(engine, ctx, dev, seed, messages), handle_(handle) {}

 private:
  void connect() override {
    if (engine_.connect(ctx_, dev_, handle_.data(), &comm_) != ncclSuccess) return fail();
    if (comm_ != nullptr) begin();
  }
  SendConnection& connection() { return *static_cast<SendConnection*>(static_cast<Connection*>(comm_)); }

  bool post() override {
    if (posted_ == messages_ || posted_ >= limit || posted_ - done_ == kSlots) return false;
    const std::vector<uint8_t> bytes = payload(seed_, posted_);
    if (!bytes.empty()) memcpy(slot(posted_), bytes.data(), bytes.size());
    void* request = reinterpret_cast<void*>(1);  // NCCL presets it
    if (connection().isend(slot(posted_), bytes.size(), static_cast<int>(posted_), mr_, nullptr, &request) !=
        ncclSuccess) {
      return fail(), false;
    }
    if (request == nullptr) return false;
    requests_[posted_++ % kSlots] = request;
    return true;
  }

  bool harvest() override {
    if (done_ == posted_) return false;
    auto& request = *static_cast<r2cc::Request*>(requests_[done_ % kSlots]);
    int done = 0;
    if (request.connection->test(request, &done, nullptr) != ncclSuccess) return fail(), false;
    if (!done) return false;
    memset(slot(done_), kReused, kGuardBytes);  // a late read now sends rubbish
    oneDone();
    return true;
  }

  void closeComm() override {
    if (comm_ != nullptr) engine_.closeSend(comm_);
  }
  InnerHandle handle_;
};

class Receiver final : public End {
 public:
  /// `gpu`: the buffers are GPU memory of this fabric, flushed before they are read.
  Receiver(Engine& engine, void* ctx, int dev, uint64_t seed, uint64_t messages, InnerHandle& handle, Fabric* gpu)
      : End(engine, ctx, dev, seed, messages), gpu_(gpu) {
    if (gpu != nullptr) memory_ = NCCL_PTR_CUDA;
    if (engine.listen(ctx, dev, handle.data(), &listen_) != ncclSuccess) fail();
  }

 private:
  void connect() override {
    if (engine_.accept(listen_, &comm_) != ncclSuccess) return fail();
    if (comm_ == nullptr) return;
    closeListen();
    begin();
    std::fill(buffers_.begin(), buffers_.end(), kPoison);
  }
  RecvConnection& connection() { return *static_cast<RecvConnection*>(static_cast<Connection*>(comm_)); }
  void closeListen() {
    if (listen_ != nullptr) engine_.closeListen(listen_);
    listen_ = nullptr;
  }

  bool post() override {
    if (posted_ == messages_ || posted_ >= limit || posted_ - done_ == kSlots) return false;
    if (!allAre(slot(posted_), kGuardBytes, kPoison)) wrong("late write before message " + std::to_string(posted_));
    void* request = reinterpret_cast<void*>(1);
    if (connection().irecv(slot(posted_), kSlotBytes, static_cast<int>(posted_), mr_, nullptr, &request) !=
        ncclSuccess) {
      return fail(), false;
    }
    if (request == nullptr) return false;
    requests_[posted_++ % kSlots] = request;
    return true;
  }

  bool harvest() override {
    if (done_ == posted_) return false;
    if (flush_ == nullptr) {
      auto& request = *static_cast<r2cc::Request*>(requests_[done_ % kSlots]);
      int done = 0;
      if (request.connection->test(request, &done, &size_) != ncclSuccess) return fail(), false;
      if (!done) return false;
      if (!startFlush()) return false;
    }
    if (!flushed()) return false;
    if (gpu_ != nullptr && size_ > 0) (void)gpu_->reads(slot(done_), static_cast<size_t>(size_));
    check(static_cast<size_t>(size_));
    oneDone();
    return true;
  }

  /// As NCCL where its GPU needs it: a flush before the message is used.
  bool startFlush() {
    if (gpu_ == nullptr || size_ == 0) return true;
    void* data = slot(done_);
    if (connection().iflush(1, &data, &size_, &mr_, &flush_) != ncclSuccess) return fail(), false;
    return true;
  }
  bool flushed() {
    if (flush_ == nullptr) return true;
    auto& request = *static_cast<r2cc::Request*>(flush_);
    int done = 0;
    if (request.connection->test(request, &done, nullptr) != ncclSuccess) return fail(), false;
    if (done) flush_ = nullptr;
    return done != 0;
  }

  void check(size_t size) {
    const std::vector<uint8_t> expected = payload(seed_, done_);
    const std::string which = "message " + std::to_string(done_);
    if (size != expected.size()) return wrong(which + " has another size: " + std::to_string(size));
    if (size > 0 && memcmp(slot(done_), expected.data(), size) != 0) {
      uint64_t number = 0;
      memcpy(&number, slot(done_), std::min<size_t>(size, 8));
      wrong(which + " has other bytes; they begin like message " + std::to_string(number));
    }
    memset(slot(done_), kPoison, std::max(size, kGuardBytes));
  }

  void closeComm() override {
    closeListen();
    if (comm_ != nullptr) engine_.closeRecv(comm_);
  }
  Fabric* const gpu_;
  void* listen_ = nullptr;
  void* flush_ = nullptr;
  int size_ = 0;
};

}  // namespace

// ---- End --------------------------------------------------------------------------------------------------------

End::End(Engine& engine, void* ctx, int dev, uint64_t seed, uint64_t messages)
    : engine_(engine), ctx_(ctx), dev_(dev), seed_(seed), messages_(messages) {}

void End::begin() {
  buffers_.resize(kSlots * kSlotBytes);
  if (engine_.regMr(comm_, buffers_.data(), buffers_.size(), memory_, 0, -1, &mr_) != ncclSuccess) return fail();
  lastNs_ = nowNs();
  state_ = State::Running;
}

bool End::step() {
  if (state() == State::Connecting) return connect(), state() == State::Running;
  if (state() != State::Running) return false;
  bool moved = false;
  while (state() == State::Running && post()) moved = true;
  while (state() == State::Running && harvest()) moved = true;
  if (state() == State::Running && done_ == messages_) state_ = State::Done;
  return moved;
}

void End::oneDone() {
  const int64_t now = nowNs();
  gapNs_ = std::max(gapNs_.load(), now - lastNs_);
  lastNs_ = now;
  done_++;
}

void End::deregister() {
  if (comm_ != nullptr && mr_ != nullptr) (void)engine_.deregMr(comm_, mr_);
  mr_ = nullptr;
  std::vector<uint8_t>().swap(buffers_);  // whoever still uses it is now caught
}

void End::close() {
  deregister();
  if (comm_ != nullptr || state() == State::Connecting || state() == State::Failed) closeComm();
  comm_ = nullptr;
}

void End::wrong(const std::string& what) {
  if (wrong_.size() < 500) wrong_ += what + "; ";
}

// ---- Rig --------------------------------------------------------------------------------------------------------

Rig::Rig(const RigOptions& options)
    : fabric(options.hosts,
             Play{options.needsAck, options.anyOrder, options.drains, options.gpu, options.plain,
                  options.plain && options.confirms, options.samples},
             options.seed),
      resort(options.hosts, Play{true, false, false, false, false}, options.seed + 1),
      options_(options) {
  Config config;
  config.holdNs = options.holdNs;
  config.mode = options.mode;
  config.probationNs = options.probationNs;
  config.damping = options.damping;
  config.eventFile = options.eventFile;
  for (int host = 0; host < options.hosts; host++) {
    const auto info = [this, host](const std::string& text) { options_.log(host, text); };
    const auto warn = [this, host](const std::string& text) {
      if (options_.log) options_.log(host, text);
      const std::lock_guard<std::mutex> lock(mutex_);
      warnings_.push_back(text);
    };
    engines_.push_back(std::make_unique<Engine>(
        config, fabric.inner(), nics(host), warn,
        [this, host](size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, SideChannel::Way way) {
          return passes(host, nic, to, bytes, way);
        },
        options_.log ? Engine::Warn(info) : nullptr, nullptr, &boards_[static_cast<size_t>(host)]));
  }
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
    nic.name = "lo";
    nic.ifindex = 1000000U + static_cast<unsigned>(rail);  // no such interface: netlink says nothing about it
    nic.dev = rail;
    nic.assumedDown = host == 0 && rail == options_.assumedDown;
    nic.address.dev = static_cast<uint8_t>(rail);
    nic.address.family = AF_INET;
    nic.address.prefix = 24;
    nic.address.ip = {127, 0, static_cast<uint8_t>(rail + 1), static_cast<uint8_t>(host + 1)};
    out.push_back(nic);
  }
  if (options_.lastResort) {
    LocalNic nic = out.back();
    nic.ifindex++;
    nic.dev = 0;
    nic.inner = resort.inner();
    nic.ctx = resort.context(host);
    nic.address.dev++;
    nic.address.flags = kLastResort;
    nic.address.ip[2]++;
    out.push_back(nic);
  }
  return out;
}

bool Rig::passes(int host, size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, SideChannel::Way way) {
  const bool udp = way == SideChannel::Way::Udp;
  bool lost =
      udp ? loseUdp || loseUdpOf == host : fabric.standsAt({host, static_cast<int>(nic)});  // lanes are TCP as well
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
  const uint64_t number = (options_.seed * 1000 + streams_.size()) & ((uint64_t{1} << kSizeAt) - 1);
  const uint64_t seed = number | uint64_t{options_.bytes} << kSizeAt;
  InnerHandle handle{};
  Stream s{nullptr, nullptr, from, to};
  s.receiver = std::make_unique<Receiver>(engine(to), context(to), rail, seed, messages, handle,
                                          options_.gpu ? &fabric : nullptr);
  s.sender = std::make_unique<Sender>(engine(from), context(from), rail, seed, messages, handle);
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
  for (const std::string& w : warnings()) out += w + "\n";
  return out;
}

}  // namespace r2cc::fake
