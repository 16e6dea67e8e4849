// Host-assisted staging: a net around another one that accepts GPU memory although the inner one does not. A send is
// copied to a pinned bounce buffer and sent from there; a message arrives in a bounce buffer and is copied to the GPU,
// and is done when that copy is. Host memory goes straight through.
//
// It is what a last-resort lane over sockets runs on when NCCL's buffers are in GPU memory, and what serves a NIC that
// cannot reach the GPU.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "inner/inner_net.h"
#include "memory/bounce.h"

namespace r2cc {

struct StagingLimits {
  size_t pinnedBytes = size_t{256} << 20;
  /// A copy engine needs microseconds for a message. A copy that needs longer than this is not coming back.
  int64_t copyNs = msToNs(5000);
};

class StagedNet {
 public:
  using Warn = std::function<void(const std::string&)>;
  StagedNet(const InnerNet& inner, std::unique_ptr<DeviceCopy> copies, Warn warn, const StagingLimits& limits = {});
  /// All comms are closed by now.
  ~StagedNet();
  StagedNet(const StagedNet&) = delete;
  StagedNet& operator=(const StagedNet&) = delete;

  /// Everything a lane calls: listen to close, and InnerOps. Devices and properties are the inner net's own (which says
  /// host memory only); init, finalize and setNetAttr are not for lanes and stay with the inner net.
  InnerNet net() const { return {&table_, &ops_}; }
  /// What listen and connect of net() take as ctx, for the inner net's ctx. Lives as long as this object.
  void* context(void* innerCtx);
  /// Pins buffers for this many messages of this size while waiting is harmless: at setup.
  void reserve(size_t messageBytes, int messages) { pool_.reserve(messageBytes, messages); }
  size_t pinnedBytes() const { return pool_.bytes(); }
  /// At any time.
  void warnThrough(Warn warn);

 private:
  friend class StagedComm;
  friend struct StagedTable;
  struct Context {
    StagedNet* net;
    void* inner;
  };
  void warn(const std::string& what) const;

  const InnerNet inner_;
  Warn warn_;  // under mutex_
  const int64_t copyLimitNs_;
  const std::unique_ptr<DeviceCopy> copies_;
  BouncePool pool_;
  ncclNet_t table_;
  InnerOps ops_;
  mutable std::mutex mutex_;
  std::map<void*, std::unique_ptr<Context>> contexts_;
  /// A copy did not end although its comm was fenced: nothing is staged any more, as memory may still be written to.
  std::atomic<bool> stuck_{false};
};

}  // namespace r2cc
