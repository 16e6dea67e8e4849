// Which connections the calls of this process must treat as broken; written by the watcher, asked at every call.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace r2cc::faults {

struct Limit {
  bool silent = false;     // nothing leaves
  uint64_t mostBytes = 0;  // of one call; 0: any
};

class Book {
 public:
  /// The only cost of a call while nothing is broken.
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  Limit of(uint64_t cookie) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = limits_.find(cookie);
    return found == limits_.end() ? Limit{} : found->second;
  }
  void set(uint64_t cookie, const Limit& limit) {
    const std::lock_guard<std::mutex> lock(mutex_);
    limits_[cookie] = limit;
    size_.store(limits_.size(), std::memory_order_relaxed);
  }
  void remove(uint64_t cookie) {
    const std::lock_guard<std::mutex> lock(mutex_);
    limits_.erase(cookie);
    size_.store(limits_.size(), std::memory_order_relaxed);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Limit> limits_;
  std::atomic<size_t> size_{0};
};

}  // namespace r2cc::faults
