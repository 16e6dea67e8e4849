// Copies between GPU memory and pinned host memory, as little of CUDA as staging needs. Calls come from any thread and
// none of them waits for a copy or a kernel, except the two that say so.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace r2cc {

class DeviceCopy {
 public:
  enum class State { Running, Done, Failed };

  virtual ~DeviceCopy() = default;
  /// The GPU that owns the memory; -1 when no GPU does.
  virtual int deviceOf(const void* memory) = 0;
  /// Host memory that every GPU can copy from and to, or null. May wait for kernels that run: never call these two
  /// where NCCL's progress depends on the answer.
  virtual void* allocPinned(size_t size) = 0;
  virtual void freePinned(void* memory) = 0;
  /// Starts a copy; null when it could not be started. Copies of one GPU and direction end in the order they began.
  virtual void* toHost(int device, void* host, const void* gpu, size_t size) = 0;
  virtual void* toDevice(int device, void* gpu, const void* host, size_t size) = 0;
  /// Done and Failed end the copy: it must not be polled again.
  virtual State poll(void* copy) = 0;
};

/// Copies by the CUDA driver, found at run time. Null where there is none or no GPU, and `why` says what is missing.
std::unique_ptr<DeviceCopy> cudaDeviceCopy(std::string& why);

}  // namespace r2cc
