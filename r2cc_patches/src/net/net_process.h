// The process's engine: made by the first communicator, gone with the last. NCCL's table functions carry no context of
// ours (devices, getProperties, test), so the process has one; health is one view per process anyway. NCCL is given a
// table for each inner net before it knows which has devices: the one it initialises is `inner`.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/process_life.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "net/in_path.h"
#include "net/last_resort.h"
#include "nic/topology.h"

namespace r2cc {

class NetProcess {
 public:
  /// Never destroyed: our threads, and NCCL's, may outlive main.
  static NetProcess& instance();

  ncclResult_t init(ncclNet_t* net, void** ctx, uint64_t commId, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                    ncclProfilerCallback_t profiler);
  ncclResult_t finalize(void* ctx);

  const ncclNet_t& inner() const { return *inner_.net; }
  /// Null when it could not start.
  Engine* engine() const { return engine_.get(); }
  /// Whether a device is one of the engine's: it has an address, to bind to and to probe. Others are passed through.
  bool protects(int dev) const { return engine_ != nullptr && !inChild() && engine_->hasAddress(dev); }
  /// Whether nothing may be connected that is passed through, as it would go unencrypted (R2CC_TLS); says so.
  bool refusesPlain(int dev);
  /// A comm was made, by us or by the inner net alone.
  void countConnection(bool ours) { (ours ? protectedConnections_ : plainConnections_)++; }
  /// Says which net is in use, or was last, and how many connections it has.
  void sayInPath();
  void expectGpuMemory(int type, size_t size);
  void abort(bool aborts);
  void warn(const std::string& text) const;
  void info(const std::string& text) const;

 private:
  NetProcess() {
    atProcessEnd([this] { atEnd(); });
  }
  void atEnd();
  ncclResult_t initInChild(ncclNet_t* net, const LastResort::Init& init, void** ctx);
  ncclResult_t start(const LastResort::Init& init);
  void bar();
  void sayEncryption(const Config& settings) const;
  void sayInPathLocked();
  void sayEnd();
  void end();
  std::function<void(const std::string&)> warner() const {
    return [this](const std::string& text) { warn(text); };
  }
  void describe(int mode, const std::vector<NicName>& devices);
  void makeEngine(const Config& settings, const LastResort::Init& init);

  std::mutex mutex_;
  InnerNet inner_{};
  Distances distances_;
  std::unique_ptr<LastResort> lastResort_;
  std::unique_ptr<Engine> engine_;  // after what it uses
  InPath path_;                     // but for its connections
  std::atomic<uint64_t> protectedConnections_{0};
  std::atomic<uint64_t> plainConnections_{0};
  bool quiet_ = false;
  bool encrypts_ = false;  // R2CC_TLS
  bool barred_ = false;    // and cannot
  int users_ = 0;
  int usersInChild_ = 0;
  ncclDebugLogger_t log_ = nullptr;
};

}  // namespace r2cc
