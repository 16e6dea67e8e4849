#include "end.h"

#include <algorithm>
#include <cstring>

namespace r2cc::fake {
namespace {

constexpr uint8_t kPoison = 0xa5;   // what a receive buffer holds when nobody may write to it
constexpr uint8_t kReused = 0xee;   // what a send buffer holds once NCCL may use it for something else
constexpr size_t kGuardBytes = 64;  // checked for late writes

uint64_t mix(uint64_t x) {
  x ^= x >> 33, x *= 0xff51afd7ed558ccd, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

/// Mostly small; empty ones, odd ones, and now and then more than a datagram, a page, a socket chunk.
size_t mixedSize(uint64_t seed, uint64_t number) {
  static constexpr size_t kSizes[] = {0, 1, 7, 8, 64, 100, 512, 1000, 1024, 1500, 2048, 4096, 63, 9, 16384};
  const uint64_t pick = mix(seed * 1000003 + number);
  if (pick % 61 == 0) return kSlotBytes;
  return kSizes[pick % std::size(kSizes)];
}

bool allAre(const uint8_t* data, size_t size, uint8_t value) {
  return std::all_of(data, data + size, [&](uint8_t b) { return b == value; });
}

class Sender final : public End {
 public:
  Sender(const EndOf& of, const InnerHandle& handle) : End(of), handle_(handle) {}

 private:
  void connect() override {
    if (engine_.connect(ctx_, dev_, handle_.data(), &comm_) != ncclSuccess) return fail();
    if (comm_ != nullptr) begin();
  }
  SendConnection& connection() { return *static_cast<SendConnection*>(static_cast<Connection*>(comm_)); }

  /// As NCCL's GPU, which fills a slot only below the head: a late read then sends rubbish.
  void publish(uint64_t head) {
    for (uint64_t number = free_; number < head; number++) memset(slot(number), kReused, kGuardBytes);
    free_ = head;
  }

  bool post() override {
    uint64_t head = 0;
    bool more = false;
    if (lends_ && connection().moreCredit(head, more) != ncclSuccess) return fail(), false;
    if (more) publish(head);
    if (posted_ == messages_ || posted_ >= limit || posted_ - free_ == slots_) return false;
    const std::vector<uint8_t> bytes = payload(posted_);
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
    if (done_ == posted_ || done_ >= askBelow) return false;
    auto& request = *static_cast<r2cc::Request*>(requests_[done_ % kSlots]);
    int done = 0;
    if (request.connection->test(request, &done, nullptr) != ncclSuccess) return fail(), false;
    if (!done) return false;
    oneDone();
    publish(lends_ ? connection().headAfter(done_) : done_.load());
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
  Receiver(const EndOf& of, InnerHandle& handle, Fabric* gpu) : End(of), gpu_(gpu) {
    if (gpu != nullptr) memory_ = NCCL_PTR_CUDA;
    if (engine_.listen(ctx_, dev_, handle.data(), &listen_) != ncclSuccess) fail();
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
    if (posted_ == messages_ || posted_ >= limit || posted_ - done_ == slots_) return false;
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
    const bool more = received_ < posted_ && received_ < askBelow && receive();
    if (done_ == received_ || !flushed(here(done_))) return more;
    const auto size = static_cast<size_t>(here(done_).size);
    if (gpu_ != nullptr && size > 0) (void)gpu_->reads(slot(done_), size);
    check(size);
    oneDone();
    return true;
  }

  /// What came, until it is used.
  struct Here {
    int size = 0;
    void* flush = nullptr;
  };
  Here& here(uint64_t message) { return here_[message % kSlots]; }

  bool receive() {
    auto& request = *static_cast<r2cc::Request*>(requests_[received_ % kSlots]);
    Here now;
    int done = 0;
    if (request.connection->test(request, &done, &now.size) != ncclSuccess) return fail(), false;
    if (!done || !startFlush(now)) return false;
    here(received_++) = now;
    return true;
  }
  /// As NCCL where its GPU needs it: a flush before the message is used. Meanwhile others come, and are flushed.
  bool startFlush(Here& now) {
    if (gpu_ == nullptr || now.size == 0 || !asksToFlush) return true;
    void* data = slot(received_);
    if (connection().iflush(1, &data, &now.size, &mr_, &now.flush) != ncclSuccess) return fail(), false;
    if (now.flush != nullptr) mostFlushes = std::max(mostFlushes.load(), ++flushes_);
    return true;
  }
  bool flushed(Here& now) {
    if (now.flush == nullptr) return true;
    auto& request = *static_cast<r2cc::Request*>(now.flush);
    int done = 0;
    if (request.connection->test(request, &done, nullptr) != ncclSuccess) return fail(), false;
    if (done) now.flush = nullptr, flushes_--;
    return done != 0;
  }

  void check(size_t size) {
    const std::vector<uint8_t> expected = payload(done_);
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
  uint64_t received_ = 0;
  Here here_[kSlots];
  int flushes_ = 0;
};

}  // namespace

// ---- End --------------------------------------------------------------------------------------------------------

End::End(const EndOf& of)
    : engine_(of.engine),
      ctx_(of.ctx),
      dev_(of.dev),
      seed_(of.seed),
      messages_(of.messages),
      slots_(of.slots),
      sizes_(of.sizes),
      lends_(of.lends) {}

/// Its number first, then bytes that depend on stream, number and position.
std::vector<uint8_t> End::payload(uint64_t number) const {
  std::vector<uint8_t> out(sizes_ ? sizes_(number) : mixedSize(seed_, number));
  uint64_t word = number;
  for (size_t i = 0; i < out.size(); i += 8) {
    memcpy(out.data() + i, &word, std::min<size_t>(8, out.size() - i));
    word = mix(seed_ ^ (number << 20) ^ i);
  }
  return out;
}

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

std::unique_ptr<End> makeSender(const EndOf& of, const InnerHandle& handle) {
  return std::make_unique<Sender>(of, handle);
}

std::unique_ptr<End> makeReceiver(const EndOf& of, InnerHandle& handle, Fabric* gpu) {
  return std::make_unique<Receiver>(of, handle, gpu);
}

}  // namespace r2cc::fake
