// Which connections the calls of this process must treat as broken; written by the watcher, asked at every call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "faults/rules/rules.h"

namespace r2cc::faults {

class Book {
 public:
  /// The only cost of a call while nothing is broken.
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  /// Of one call on this connection; 0: any.
  uint64_t mostBytes(uint64_t cookie) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = limits_.find(cookie);
    return found == limits_.end() ? 0 : found->second;
  }
  void limit(uint64_t cookie, uint64_t mostBytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    limits_[cookie] = mostBytes;
    size_.store(limits_.size(), std::memory_order_relaxed);
  }
  /// Rules by which new connections have to be silent from their first packet on.
  void setSilent(std::vector<Rule> rules) {
    const std::lock_guard<std::mutex> lock(mutex_);
    silent_ = std::move(rules);
    silences_.store(!silent_.empty(), std::memory_order_relaxed);
  }
  bool silences() const { return silences_.load(std::memory_order_relaxed); }
  /// Silences a connection that is to have these ends, if it has to be, and remembers it. Under the lock: none is
  /// silenced after takeEarly.
  template <typename Silence>
  void silenceNew(uint64_t cookie, const Ends& ends, const Silence& silence) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto matches = [&ends](const Rule& rule) { return rule.matches(ends); };
    if (std::any_of(silent_.begin(), silent_.end(), matches) && silence()) early_.insert(cookie);
  }
  /// Connections that were silenced so, to be heard again.
  std::unordered_set<uint64_t> takeEarly() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(early_, {});
  }
  void remove(uint64_t cookie) {
    const std::lock_guard<std::mutex> lock(mutex_);
    limits_.erase(cookie);
    size_.store(limits_.size(), std::memory_order_relaxed);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> limits_;
  std::vector<Rule> silent_;
  std::unordered_set<uint64_t> early_;
  std::atomic<size_t> size_{0};
  std::atomic<bool> silences_{false};
};

}  // namespace r2cc::faults
