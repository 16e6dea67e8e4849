// Buffers for copies of messages. Who frees one gives it back, and the last one given back is taken first: it is in the
// CPU's cache, and its pages are there. From malloc and to it a message of 8 KiB cost more than its copy: the heap's
// end went back to the kernel with each, and came again as pages to be cleared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace r2cc {

struct CopyBuffer {
  std::unique_ptr<uint8_t[]> bytes;
  size_t size = 0;  // room
};

/// Of all connections of the process, whatever thread they are used by.
class CopyPool {
 public:
  /// Sizes of buffers; a larger message gets one of its own.
  static constexpr std::array<size_t, 3> kSizes{4096, 16384, 65536};
  /// At most so many bytes wait to be taken again; what is given back beyond them is freed.
#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t kMostSpare = 0;  // ASan sees who uses one that was given back
#else
  static constexpr size_t kMostSpare = size_t{4} << 20;
#endif

  static CopyPool& ofProcess() {
    static CopyPool& pool = *new CopyPool;  // for as long as the process lives
    return pool;
  }

  /// Room for at least `size` bytes, not cleared. Throws std::bad_alloc.
  CopyBuffer take(size_t size) {
    for (size_t i = 0; i < kSizes.size(); i++) {
      if (size > kSizes[i]) continue;
      size = kSizes[i];
      const std::lock_guard lock(mutex_);
      if (spare_[i].empty()) break;
      CopyBuffer buffer{std::move(spare_[i].back()), size};
      spare_[i].pop_back();
      spareBytes_ -= size;
      return buffer;
    }
    return {std::unique_ptr<uint8_t[]>(new uint8_t[size]), size};
  }
  void give(CopyBuffer buffer) {
    for (size_t i = 0; i < kSizes.size(); i++) {
      if (buffer.size != kSizes[i]) continue;
      const std::lock_guard lock(mutex_);
      if (spareBytes_ + buffer.size > kMostSpare) return;
      spare_[i].push_back(std::move(buffer.bytes));
      spareBytes_ += buffer.size;
      return;
    }
  }
  /// How much waits to be taken again.
  size_t spareBytes() {
    const std::lock_guard lock(mutex_);
    return spareBytes_;
  }

 private:
  std::mutex mutex_;
  std::array<std::vector<std::unique_ptr<uint8_t[]>>, kSizes.size()> spare_;
  size_t spareBytes_ = 0;
};

}  // namespace r2cc
