#include "memory/bounce.h"

#include <pthread.h>

#include <algorithm>

namespace r2cc {
namespace {

constexpr size_t kSmallest = 64 << 10;

/// Sizes come in powers of two, so that a buffer serves many messages.
size_t classOf(size_t size) {
  size_t rounded = kSmallest;
  while (rounded < size) rounded *= 2;
  return rounded;
}

}  // namespace

BouncePool::~BouncePool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  for (const Bounce& bounce : bounces_) {
    if (bounce.free) copies_.freePinned(bounce.data);
  }
}

BouncePool::Answer BouncePool::take(size_t size, bool first, Bounce** out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t rounded = classOf(size);
  Bounce* best = nullptr;
  bool exists = false;
  for (Bounce& bounce : bounces_) {
    if (bounce.size < size) continue;
    exists = true;
    if (bounce.free && (best == nullptr || bounce.size < best->size)) best = &bounce;
  }
  if (!first && bytes_ > limit_) return Answer::NotYet;  // what is free then is for those that hold none
  if (best != nullptr) {
    best->free = false;
    *out = best;
    return Answer::Taken;
  }
  if (refused_.count(rounded) != 0) return exists ? Answer::NotYet : Answer::Never;
  if (first || bytes_ + rounded <= limit_) {
    wanted_.insert(rounded);
    if (!thread_.joinable()) thread_ = std::thread([this] { grow(); });
    wake_.notify_one();
  }
  return Answer::NotYet;
}

void BouncePool::give(Bounce* bounce) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bounce->free = true;
}

size_t BouncePool::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

void BouncePool::reserve(size_t size, int count) {
  std::unique_lock<std::mutex> lock(mutex_);
  const size_t rounded = classOf(size);
  const auto there = [&] {
    return std::count_if(bounces_.begin(), bounces_.end(), [&](const Bounce& b) { return b.size == rounded; });
  };
  while (there() < count && bytes_ + rounded <= limit_ && pin(lock, rounded)) {
  }
}

void BouncePool::grow() {
  pthread_setname_np(pthread_self(), "r2cc-pin");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !wanted_.empty(); });
    if (stop_) return;
    const size_t size = *wanted_.begin();
    if (!pin(lock, size)) refused_.insert(size);
    wanted_.erase(size);  // not before: an asker in the meantime must not ask for a second one
  }
}

bool BouncePool::pin(std::unique_lock<std::mutex>& lock, size_t size) {
  lock.unlock();
  void* data = copies_.allocPinned(size);
  lock.lock();
  if (data == nullptr) return false;
  bounces_.push_back({data, size, true});
  bytes_ += size;
  return true;
}

}  // namespace r2cc
