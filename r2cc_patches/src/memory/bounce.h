// Pinned host buffers that staged messages bounce through. Pinning may wait for running kernels, and a kernel may wait
// for the message at hand, so the pool never pins on the thread that asks: it grows on a thread of its own, or ahead of
// time by reserve().
//
// Nobody starves: past the limit a comm that holds no buffer may still have one. Otherwise the receives of one
// connection could hold every buffer while the sends they wait for, at all ranks, find none.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "memory/device_copy.h"

namespace r2cc {

struct Bounce {
  void* data;
  size_t size;
  bool free;
};

class BouncePool {
 public:
  enum class Answer { Taken, NotYet, Never };

  BouncePool(DeviceCopy& copies, size_t limitBytes) : copies_(copies), limit_(limitBytes) {}
  /// Frees what was given back. Buffers that were not (a copy may still be using them) stay pinned for ever.
  ~BouncePool();
  BouncePool(const BouncePool&) = delete;
  BouncePool& operator=(const BouncePool&) = delete;

  /// A buffer of `size` bytes or more. NotYet: ask again, the pool is growing or others will give back. Never: there is
  /// no memory to pin. `first`: the asker holds none.
  Answer take(size_t size, bool first, Bounce** out);
  void give(Bounce* bounce);
  /// Pins until `count` buffers of `size` bytes exist, here and now, within the limit. At setup, before kernels wait.
  void reserve(size_t size, int count);
  size_t bytes() const;

 private:
  void grow();
  bool pin(std::unique_lock<std::mutex>& lock, size_t size);

  DeviceCopy& copies_;
  const size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Bounce> bounces_;
  std::set<size_t> wanted_, refused_;  // sizes
  size_t bytes_ = 0;
  bool stop_ = false;
  std::thread thread_;  // from the first wish on
};

}  // namespace r2cc
