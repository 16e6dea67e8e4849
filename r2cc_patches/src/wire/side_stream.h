// The side channel's second way: the same sealed datagrams, each behind its length, over a TCP connection between two
// NICs. Made where UDP does not pass (a firewall, a policy, a filter), and to find out whether TCP does. It keeps to
// what a datagram is: whole or not at all, and never waited for. Who may speak is in the datagrams, so that nothing
// here is trusted but the framing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "wire/side_channel.h"

namespace r2cc {

class Path;
class Peer;

constexpr int64_t kStuckNs = 40'000'000;  // as long as a kernel may wait before it confirms

class SideStream {
 public:
  /// Begins to connect; null when the kernel refuses at once. `freely`: not bound to the NIC's device.
  static std::shared_ptr<SideStream> connect(const LocalNic& nic, const NicAddress& to, bool acks, bool freely);
  /// Takes over an accepted socket.
  SideStream(int fd, size_t nic, const NicAddress& from, bool acks);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  int fd() const { return fd_; }
  const size_t nic;       // ours
  const NicAddress from;  // the other end's address; of an accepted one the port means nothing
  const bool acks;        // for acknowledgements and nothing else
  int64_t sinceNs;        // when it was begun, or woken; the engine's

  /// Thread-safe. False: it does not fit now, or not yet, and is lost.
  bool send(const std::vector<uint8_t>& bytes);
  using OnDatagram = std::function<void(const uint8_t* data, size_t size)>;
  /// Whole datagrams that have come, some at a time. False: it is over.
  bool read(const OnDatagram& datagram);
  /// The other end's kernel has taken it.
  bool up();
  /// The other end's kernel refused, or ended it.
  bool refused() const { return refused_; }
  /// How long ago the other end's kernel last said anything.
  int64_t quietNs() const;
  /// The same where something of ours is not confirmed; else 0.
  int64_t unconfirmedNs() const;
  /// It is up, and what it was told is not confirmed for so long that its end may have been lost.
  bool stuck() { return up() && unconfirmedNs() > kStuckNs; }
  /// Packets of ours that went out more than once.
  uint32_t resent() const;

  // Whose it is: the engine's.
  Peer* peer = nullptr;
  Path* path = nullptr;
  bool ours = false;     // we connected it
  bool rests = false;    // for the time when UDP and new connections are lost (SecondWay::keepSpare)
  bool woken = false;    // that has come
  bool greeted = false;  // and the other end was told whose it is
  int64_t heardNs = 0;   // the last datagram that came by it
  int64_t provedNs = 0;  // when as much as data was last sent over it

 private:
  bool flush();  // with mutex_ held
  const int fd_;
  std::mutex mutex_;
  std::vector<uint8_t> pending_;  // the rest of a datagram that went out in part
  std::vector<uint8_t> inbox_;
  std::atomic<bool> up_{false};
  std::atomic<bool> refused_{false};
};

using SideStreamPtr = std::shared_ptr<SideStream>;

/// A path's stream of one kind. Written by the engine, read by whoever sends.
class StreamSlot {
 public:
  bool used() const { return used_.load(std::memory_order_acquire); }
  SideStreamPtr get() const {
    if (!used()) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    return stream_;
  }
  void set(SideStreamPtr stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stream_.swap(stream);
    used_.store(stream_ != nullptr, std::memory_order_release);
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> used_{false};
  SideStreamPtr stream_;
};

}  // namespace r2cc
