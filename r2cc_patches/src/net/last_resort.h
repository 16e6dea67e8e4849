// Sockets over an interface that NCCL does not use (R2CC_LAST_RESORT_IFNAME), for the time in which a host has no other
// NIC left: slow, but the job goes on. Buffers in GPU memory are staged through the host (staging.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/config.h"
#include "memory/staging.h"
#include "wire/side_channel.h"

namespace r2cc {

class LastResort {
 public:
  using Warn = std::function<void(const std::string&)>;
  /// What NCCL gave to the inner net's init.
  struct Init {
    uint64_t commId;
    ncclNetCommConfig_t* config;
    ncclDebugLogger_t log;
    ncclProfilerCallback_t profiler;
  };
  /// Null where none is configured, or (with one warning) where it cannot be had. `nics`: those there are already.
  static std::unique_ptr<LastResort> make(const Config& config, const Init& init, const std::vector<LocalNic>& nics,
                                          const Warn& warn);
  /// Lanes that are still to be closed keep what they need.
  ~LastResort() = default;
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

  const LocalNic& nic() const { return nic_; }
  /// From now on it warns this way.
  void warnThrough(const Warn& warn);
  /// Pins memory while waiting is harmless: NCCL registered a GPU buffer of this size.
  void expect(size_t bytes);

 private:
  LastResort() = default;
  struct Net;
  std::shared_ptr<Net> net_;
  LocalNic nic_;
};

}  // namespace r2cc
