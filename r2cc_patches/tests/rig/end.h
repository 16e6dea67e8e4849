// One end of a stream of numbered messages, driven as NCCL drives a comm. Every byte that arrives is checked.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "rig/fabric/fake_inner.h"

namespace r2cc::fake {

constexpr int kSlots = 8;
constexpr size_t kSlotBytes = 81920;

/// How large a message is, by its number, kSlotBytes at most; none: sizes are mixed.
using Sizes = std::function<size_t(uint64_t)>;

/// Whose end it is, at which of its devices, and of which stream.
struct EndOf {
  Engine& engine;
  void* ctx;
  int dev;
  uint64_t seed, messages;
  uint64_t slots = kSlots;  // that are used
  Sizes sizes{};            // NOLINT(readability-redundant-member-init)
  bool lends = false;       // a sender's NCCL is our fork, which lends its slots (data/slot_credits.h)
};

/// One end of a stream, driven by its host's progress thread as NCCL drives a comm.
class End {
 public:
  enum class State { Connecting, Running, Done, Failed };
  explicit End(const EndOf& of);
  virtual ~End() = default;
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  /// One turn of the progress thread. True: something moved.
  bool step();
  /// NCCL takes the memory away, whatever is still using it.
  void deregister();
  /// As NCCL: deregisters and frees the buffers first, then closes. Call when the progress thread is gone.
  void close();
  void* comm() const { return comm_; }
  void* memory() const { return mr_; }
  State state() const { return state_.load(); }
  uint64_t done() const { return done_.load(); }
  /// That were given to the connection, and taken.
  uint64_t posted() const { return posted_.load(); }
  /// Of a sender: messages whose slots NCCL's GPU may write to again.
  uint64_t free() const { return free_.load(); }
  const void* buffers() const { return buffers_.data(); }
  int64_t longestGapNs() const { return gapNs_.load(); }
  const std::string& wrong() const { return wrong_; }  // read when the progress thread is gone

  /// Messages from here on wait.
  std::atomic<uint64_t> limit{UINT64_MAX};
  /// NCCL does not ask for messages from here on.
  std::atomic<uint64_t> askBelow{UINT64_MAX};
  /// NCCL asks for a flush of each message in GPU memory.
  std::atomic<bool> asksToFlush{true};
  /// Flushes that NCCL asked for and that were under way at once.
  std::atomic<int> mostFlushes{0};

 protected:
  virtual void connect() = 0;
  virtual bool post() = 0;
  virtual bool harvest() = 0;
  virtual void closeComm() = 0;
  void begin();
  void fail() { state_ = State::Failed; }
  void oneDone();
  /// What the message holds.
  std::vector<uint8_t> payload(uint64_t number) const;
  uint8_t* slot(uint64_t number) { return buffers_.data() + number % kSlots * kSlotBytes; }
  void wrong(const std::string& what);

  Engine& engine_;
  void* const ctx_;
  const int dev_;
  const uint64_t seed_, messages_, slots_;
  const Sizes sizes_;
  void* comm_ = nullptr;
  void* mr_ = nullptr;
  int memory_ = NCCL_PTR_HOST;
  std::vector<uint8_t> buffers_;
  std::array<void*, kSlots> requests_{};
  std::atomic<uint64_t> posted_{0}, done_{0}, free_{0};
  const bool lends_;

 private:
  std::atomic<State> state_{State::Connecting};
  std::atomic<int64_t> gapNs_{0};
  int64_t lastNs_ = 0;
  std::string wrong_;
};

std::unique_ptr<End> makeSender(const EndOf& of, const InnerHandle& handle);
/// `gpu`: the buffers are GPU memory of this fabric, flushed before they are read.
std::unique_ptr<End> makeReceiver(const EndOf& of, InnerHandle& handle, Fabric* gpu);

}  // namespace r2cc::fake
