// Processes, NICs and NCCL's progress threads, all in this process: an Engine a host, on loopback addresses that pair
// up by subnet as rails do, over the fake fabric. Streams of numbered messages run between them; every byte is checked.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "end.h"
#include "engine/engine.h"
#include "rig/fabric/fake_inner.h"

namespace r2cc::fake {

struct Stream {
  std::unique_ptr<End> sender, receiver;
  int from, to;
};

/// What the datagrams that leave say they carry.
using Seen = std::array<std::atomic<int>, 32>;

struct RigOptions {
  int hosts = 2;
  int rails = 3;
  bool needsAck = true;
  bool anyOrder = false, drains = false, gpu = false, plain = false, samples = false,
       devices = false;  // see Play
  bool confirms = true;  // where it is plain
  bool lends = false;    // senders' NCCL is our fork
  uint64_t window = 0;   // connections are a schedule's, which may have so many bytes under way
  int64_t holdNs = msToNs(20000);
  uint64_t seed = 1;
  size_t bytes = 0;         // of every message; 0: by `sizes`
  Sizes sizes{};            // NOLINT(readability-redundant-member-init)
  uint64_t slots = kSlots;  // messages of a stream on their way at most
  int mode = 1;
  int64_t probationNs = msToNs(100);
  bool damping = true;
  std::string eventFile{};  // NOLINT(readability-redundant-member-init): named members may then be left out
  std::function<void(int host, const std::string&)> log{};  // NOLINT(readability-redundant-member-init): all of it
  int assumedDown = -1;                                     // the rail of host 0 that R2CC_ASSUME_DOWN names
  int late = -1;                                            // the rail that has no address yet, at every host
  // NOLINTNEXTLINE(readability-redundant-member-init): by rail, those that fail together; none: each its own
  std::vector<uint8_t> domains{};
  /// A folder with one for each host: its status file in h0/status, what it is asked in h0/control. NICs are then
  /// called rail0, rail1. NOLINTNEXTLINE(readability-redundant-member-init)
  std::string desk{};
  // NOLINTNEXTLINE(readability-redundant-member-init): R2CC_TLS of each host; none: not set
  std::vector<std::string> tls{};
  // NOLINTNEXTLINE(readability-redundant-member-init): R2CC_TLS_SECRET_FILE of each host; none: not set
  std::vector<std::string> secretFiles{};
  bool lastResort = false;  // one more NIC behind the rails, over a fabric of its own that plays sockets
};

class Rig {
 public:
  explicit Rig(const RigOptions& options);
  /// Stops the progress threads, closes the streams, ends the engines.
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  Fabric fabric;
  Fabric resort;  // what a last resort runs over
  Engine& engine(int host) { return *engines_[static_cast<size_t>(host)]; }
  void* context(int host) { return fabric.context(host); }
  /// The stream's home is `rail` at both ends.
  Stream& stream(int from, int to, int rail, uint64_t messages);
  std::vector<Stream>& streams() { return streams_; }
  /// Starts the progress threads, one a host.
  void start();
  void stop();
  /// Their process does not run for a while: progress thread, transport and side channel stand still.
  void pause(int host, bool on);
  void closeStreams();
  void endEngine(int host) { engines_[static_cast<size_t>(host)].reset(); }
  /// As when the last communicator ended and another begins. No streams are left.
  void renewEngine(int host);

  void link(int host, int rail, bool up) { engine(host).reportLink(static_cast<size_t>(rail), up); }
  /// Waits until `what` holds; false when it did not within the time.
  static bool within(int64_t limitNs, const std::function<bool()>& what);
  bool allDone(int64_t limitNs) const;
  uint64_t delivered() const;
  /// How often a type of message was sent in datagrams so far.
  int seen(Type type) const { return seen_[static_cast<size_t>(type)]; }
  /// How many different decisions those told of: each is repeated until its answer comes, on a slow machine often.
  size_t decided(Type type) const;
  /// Messages of this type are lost from now on (the whole datagram is).
  void loseType(Type type, bool on) { lose_[static_cast<size_t>(type)] = on; }
  /// All UDP is lost, TCP is not: as behind a firewall.
  std::atomic<bool> loseUdp{false};
  /// So is all that streams carry; lanes are not.
  std::atomic<bool> loseStreams{false};
  /// All UDP is lost that this host sends.
  std::atomic<int> loseUdpOf{-1};
  /// Sees every datagram that leaves by UDP. Set it before start().
  std::function<void(int host, const NicAddress& to, const std::vector<uint8_t>& bytes)> spy;
  std::vector<std::string> warnings() const;
  /// What this host's engine says its NICs can carry.
  HealthBoard& health(int host) { return boards_[static_cast<size_t>(host)]; }
  const HealthBoard& health(int host) const { return boards_[static_cast<size_t>(host)]; }
  /// Everything that went wrong, one text; empty if nothing did. After stop().
  std::string problems() const;

 private:
  std::unique_ptr<Engine> makeEngine(int host);
  std::vector<LocalNic> nics(int host);
  bool passes(int host, size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, SideChannel::Way way);
  void progress(int host);

  const RigOptions options_;
  std::array<HealthBoard, 8> boards_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<Stream> streams_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  std::array<std::atomic<bool>, 8> paused_{};
  Seen seen_{};
  std::array<std::atomic<bool>, 32> lose_{};
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::set<std::tuple<Type, uint64_t, uint32_t>> decided_;  // type, connection, epoch
};

}  // namespace r2cc::fake
