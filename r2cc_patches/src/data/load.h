// What NCCL usually gives a connection, by its last messages: however long ago they came, and at whatever rate, what
// comes next is most likely like them. Written by NCCL's thread under the connection's ownership, read by the engine.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace r2cc {

class Load {
 public:
  static constexpr size_t kNewest = 64;

  /// NCCL's thread: a message of so many bytes.
  void given(size_t bytes) {
    const auto flight = static_cast<uint64_t>(std::min(++now_, kMostInFlight));
    bytes_.store(bytes_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    newest_[given_++ % kNewest].store(bytes << kFlightBits | flight, std::memory_order_relaxed);
  }
  /// One is over.
  void over() { now_--; }

  /// The engine: all bytes so far.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  struct Usual {
    int inFlight = 0;  // the most messages at a time; 0: there was none
    size_t bytes = 0;  // half of all bytes are in messages no larger: time is bytes, and one giant is not usual
  };
  /// The engine.
  Usual usual() const {
    std::array<size_t, kNewest> sizes{};
    Usual out;
    size_t count = 0, sum = 0, below = 0;
    for (const auto& one : newest_) {
      const uint64_t both = one.load(std::memory_order_relaxed);
      if (both == 0) continue;
      out.inFlight = std::max(out.inFlight, static_cast<int>(both & kMostInFlight));
      sizes[count++] = both >> kFlightBits;
      sum += both >> kFlightBits;
    }
    std::sort(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count));
    for (size_t i = 0; i < count && 2 * below < sum; i++) below += out.bytes = sizes[i];
    return out;
  }

 private:
  static constexpr int kFlightBits = 8, kMostInFlight = (1 << kFlightBits) - 1;
  int now_ = 0;
  size_t given_ = 0;
  std::atomic<uint64_t> bytes_{0};
  std::array<std::atomic<uint64_t>, kNewest> newest_{};  // size and how many were in flight; 0: none yet
};

}  // namespace r2cc
