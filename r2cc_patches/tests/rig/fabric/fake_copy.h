// A GPU that is host memory, with copy engines that take their time, fail or hang when told to, and keep a record. The
// bytes of a copy move at its end, so that whoever reads early reads what was there before.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "memory/device_copy.h"

namespace r2cc::fake {

class FakeCopy final : public DeviceCopy {
 public:
  /// The GPU is gone, and with it any copy that never ended: what such a copy held may be freed now.
  ~FakeCopy() override {
    for (void* memory : live_) ::operator delete(memory);
  }
  /// Memory from here on belongs to GPU 0.
  void own(const void* memory, size_t size) { owned_.emplace_back(static_cast<const uint8_t*>(memory), size); }

  int deviceOf(const void* memory) override {
    const auto* at = static_cast<const uint8_t*>(memory);
    for (const auto& [start, size] : owned_) {
      if (at >= start && at < start + size) return 0;
    }
    return -1;
  }
  void* allocPinned(size_t size) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    allocThreads.insert(std::this_thread::get_id());
    if (size > largestPinned) return nullptr;
    pinned++;
    return *live_.insert(::operator new(size)).first;
  }
  void freePinned(void* memory) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    pinned--;
    live_.erase(memory);
    ::operator delete(memory);
  }
  void* toHost(int device, void* host, const void* gpu, size_t size) override {
    return start(device, host, gpu, gpu, size, toHosts);
  }
  void* toDevice(int device, void* gpu, const void* host, size_t size) override {
    return start(device, gpu, host, gpu, size, toDevices);
  }
  State poll(void* opaque) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& copy = *static_cast<Copy*>(opaque);
    if (copy.ended) misuse++;
    if (nowNs() < copy.endsAt || hang) return State::Running;
    copy.ended = true;
    running--;
    if (failNext.exchange(false)) return State::Failed;
    memcpy(copy.to, copy.from, copy.size);
    return State::Done;
  }

  std::atomic<int64_t> longestNs{0};  // each copy takes a random time up to this
  std::atomic<bool> hang{false}, failNext{false};
  std::atomic<int> toHosts{0}, toDevices{0}, running{0}, misuse{0}, pinned{0};
  std::atomic<size_t> largestPinned{SIZE_MAX};
  std::set<std::thread::id> allocThreads;

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t size;
    int64_t endsAt;
    bool ended = false;
  };
  void* start(int device, void* to, const void* from, const void* gpu, size_t size, std::atomic<int>& count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (device != 0 || deviceOf(gpu) != 0 || size == 0) misuse++;
    const int64_t most = longestNs;
    const int64_t takes = most == 0 ? 0 : static_cast<int64_t>(random_() % static_cast<uint64_t>(most));
    count++;
    running++;
    copies_.push_back({to, from, size, nowNs() + takes});
    return &copies_.back();
  }

  std::mutex mutex_;
  std::mt19937_64 random_{7};  // NOLINT(bugprone-random-generator-seed): the same delays each time
  std::vector<std::pair<const uint8_t*, size_t>> owned_;
  std::deque<Copy> copies_;
  std::set<void*> live_;
};

}  // namespace r2cc::fake
