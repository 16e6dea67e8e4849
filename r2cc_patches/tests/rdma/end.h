// One end of one connection of the IB transport, with its buffers: what ib_ops_test drives. No R2CC around it, only the
// private operations under test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "inner/inner_net.h"

namespace r2cc::ib {

constexpr size_t kHandleBytes = NCCL_NET_HANDLE_MAXSIZE;

/// What is known of a message after a test of its request.
enum class Fate : uint8_t { Waiting, Done, Failed };

struct Message {
  void* request = nullptr;
  Fate fate = Fate::Waiting;
  int size = 0;
};

class End {
 public:
  End(const InnerNet& net, void* ctx);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  std::string listen(int dev);
  /// "up", "pending" or "error": tries for `ms`.
  std::string connect(int dev, const std::string& handle, int ms);
  std::string accept(int ms);
  /// `count` buffers of `bytes`, filled with each message's own pattern (sender) or with none of it (receiver).
  void allocate(size_t count, size_t bytes);
  /// Posts the next messages, at most `count`, for at most `ms`; how many it posted. Stops at an error.
  size_t post(size_t count, int ms);
  /// Tests every message that waits, newest first, until none waits, one fails, or `ms` are over. False after an error.
  bool test(int ms);
  /// One test of each message that waits; whoever is not done then has failed.
  void settle();
  /// How long they took, in microseconds.
  int64_t drain();
  int64_t fence();
  int64_t close();
  void cancel();
  /// One letter a message: w whole, u untouched, p partly written.
  std::string contents() const;
  /// One letter a message: d done, f failed, . waiting; an s after it: done with another size than was sent.
  std::string fates() const;
  /// False if a buffer changes within `ms`.
  bool quiet(int ms) const;

 private:
  uint8_t* buffer(size_t message) const { return memory_.get() + message * stride_; }
  bool testOne(Message& message);
  void deregister();

  const InnerNet net_;
  void* const ctx_;
  bool sends_ = false;
  void* listenComm_ = nullptr;
  void* comm_ = nullptr;
  uint8_t handle_[kHandleBytes] = {};
  bool connecting_ = false;
  std::unique_ptr<uint8_t[]> memory_;
  size_t bytes_ = 0, stride_ = 0, count_ = 0;
  void* mr_ = nullptr;
  std::vector<Message> messages_;
};

}  // namespace r2cc::ib
