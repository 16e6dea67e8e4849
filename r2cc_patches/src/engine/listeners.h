// NCCL's listens, and the connections that arrived there and that NCCL has not accepted yet. Under the engine's mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "data/recv_connection.h"

namespace r2cc {

struct Listen {
  using Queue = std::deque<std::shared_ptr<RecvConnection>>;
  uint64_t id;
  uint8_t dev;
  void* ctx;
  Queue arrived;         // in the order of their Hello
  bool refused = false;  // whoever was to connect cannot

  bool full() const { return arrived.size() >= kMostArrived; }

 private:
  static constexpr size_t kMostArrived = 64;
};

class Listeners {
 public:
  Listen& open(uint64_t id, uint8_t dev, void* ctx) {
    auto& entry = listens_[id];
    entry = std::make_unique<Listen>(Listen{id, dev, ctx, {}, false});
    return *entry;
  }
  /// Null: it was closed.
  Listen* find(uint64_t id) const {
    const auto entry = listens_.find(id);
    return entry == listens_.end() ? nullptr : entry->second.get();
  }
  /// Those that were never accepted.
  Listen::Queue close(uint64_t id) {
    Listen::Queue never = std::move(listens_.at(id)->arrived);
    listens_.erase(id);
    return never;
  }
  /// Connections that wait at the fullest of them.
  size_t mostArrived() const {
    size_t most = 0;
    for (const auto& [id, listen] : listens_) most = std::max(most, listen->arrived.size());
    return most;
  }

 private:
  std::unordered_map<uint64_t, std::unique_ptr<Listen>> listens_;
};

}  // namespace r2cc
