// The door: which datagrams may touch anything at all. Under the engine's mutex, but for the counts.
#pragma once

#include "paths/shared.h"
#include "wire/dropped.h"

namespace r2cc {

class Admission {
 public:
  explicit Admission(Shared& shared) : shared_(shared) {}
  /// The sender of a genuine datagram; null, and counted, for everything else. Nothing is allocated for a stranger: a
  /// process is remembered from its first Hello on.
  Peer* genuine(Parsed& parsed);
  /// False, and counted, for what was taken before. With two ways most comes twice.
  bool fresh(Peer& peer, const Parsed& parsed);
  /// The sender of one that is genuine and fresh, or null.
  Peer* admit(Parsed& parsed);
  /// A "no such port" counts when it quotes, tag and all, a datagram of ours sent after the peer was last heard:
  /// anybody can send ICMP. The path that it is about, or null.
  Path* refused(size_t nic, const NicAddress& to, const uint8_t* quote, size_t size);
  /// Any thread.
  Dropped& dropped() { return dropped_; }
  const Dropped& dropped() const { return dropped_; }
  /// Those that the kernel did not let through to us. Any thread.
  uint64_t unread() const;

 private:
  Shared& shared_;
  Dropped dropped_;
};

}  // namespace r2cc
