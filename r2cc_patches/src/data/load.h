// How much NCCL gives a connection at a time, as of the last second. Written by NCCL's thread under the connection's
// ownership, read by the engine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace r2cc {

class Load {
 public:
  /// NCCL's thread: a message of so many bytes.
  void given(size_t bytes) {
    raise(inFlight_, ++now_);
    raise(bytes_, bytes);
  }
  /// One is over.
  void over() { now_--; }

  struct Most {
    int inFlight = 0;  // messages at a time
    size_t bytes = 0;  // of one
  };
  /// The engine.
  Most lately(int64_t now) {
    if (now - since_ >= kWindowNs) {
      last_ = {inFlight_.exchange(0, std::memory_order_relaxed), bytes_.exchange(0, std::memory_order_relaxed)};
      since_ = now;
    }
    return {std::max(last_.inFlight, inFlight_.load(std::memory_order_relaxed)),
            std::max(last_.bytes, bytes_.load(std::memory_order_relaxed))};
  }

 private:
  static constexpr int64_t kWindowNs = msToNs(500);
  template <class T>
  static void raise(std::atomic<T>& most, T value) {
    if (value > most.load(std::memory_order_relaxed)) most.store(value, std::memory_order_relaxed);
  }
  int now_ = 0;
  std::atomic<int> inFlight_{0};
  std::atomic<size_t> bytes_{0};
  Most last_;
  int64_t since_ = 0;
};

}  // namespace r2cc
