// The TCP connections of the side channel: made, accepted, and ended here. What they are for is in
// health/second_way.h, what comes by them in engine/messages.h. Under the engine's mutex.
#pragma once

#include <cstdint>
#include <map>

#include "base/fd.h"
#include "paths/shared.h"
#include "wire/side_stream.h"

namespace r2cc {

/// In an Epoll of ours: the number of a stream's descriptor is its tag less this. Below are the tags of other things.
constexpr uint64_t kTagStream = 100000;

class Streams {
 public:
  /// `control` and `acks` hear of what comes by a stream of either kind.
  Streams(Shared& shared, Epoll& control, Epoll& acks) : shared_(shared), control_(control), acks_(acks) {}

  /// Takes whoever called a NIC's TCP port.
  void accept(size_t nic, bool acks);
  /// A stream to the other end of a path, or null. Where it is `freely` made, answers may come in by another NIC.
  SideStreamPtr connect(Peer& peer, Path& path, bool acks, bool freely);
  /// Null: it was ended meanwhile.
  SideStreamPtr find(int fd) const;
  /// The first genuine datagram says whose a stream is, and `rests` whether it says nothing else. Of a path the newest
  /// that was accepted is the one in use; one that we made ourselves goes before it, so that two ends that call at once
  /// do not hang up on each other. False: it is none of this peer's.
  bool claim(const SideStreamPtr& stream, Peer& peer, bool rests);
  void close(const SideStreamPtr& stream);
  /// Those in use on a path: what was learned of UDP there is to be learned anew.
  void closeOf(Path& path);
  void closeOf(const Peer& peer);
  /// Callers that do not say for long who they are.
  void endStrangers(int64_t now);
  size_t size() const { return streams_.size(); }
  /// Those that say nothing, for the time when they are needed.
  size_t resting() const;

 private:
  void closeOlder(const SideStream& newer);
  bool adopt(const SideStreamPtr& stream);
  Epoll& waiter(const SideStream& stream) const { return stream.acks ? acks_ : control_; }
  Shared& shared_;
  Epoll &control_, &acks_;
  std::map<int, SideStreamPtr> streams_;  // by descriptor
  int64_t nextSweep_ = 0;
};

}  // namespace r2cc
