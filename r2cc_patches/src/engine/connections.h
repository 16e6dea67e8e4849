// Every connection there is, and how connections and peers end: when NCCL closes them, and when nobody asks for them
// any more. Under the engine's mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/clock.h"
#include "data/recv_connection.h"
#include "data/send_connection.h"
#include "paths/streams.h"

namespace r2cc {

class Connections {
 public:
  Connections(Shared& shared, Streams& streams) : shared_(shared), streams_(streams) {}
  void add(const std::shared_ptr<SendConnection>& made);
  void add(const std::shared_ptr<RecvConnection>& made);
  /// It may have ended since.
  bool has(const Connection* connection) const { return all_.count(connection) != 0; }
  size_t size() const { return all_.size(); }
  /// An anchor can be used: what is registered is registered there, too.
  void onAnchor(const LanePtr& lane) const;
  /// An anchor is closed: what is registered on it is taken back first.
  void leave(const LanePtr& anchor) const;
  /// NCCL closed it. It lives on until the peer has what we kept copies of.
  void close(SendConnection& connection);
  /// Nobody will ask for it any more; its sender hears how much there was.
  void close(RecvConnection& connection);
  /// Ends the closed ones whose copies the peer has, or will not have any more.
  void endLingering(Peer& peer);
  bool anyLingers() const;
  /// One of these has what NCCL would have waited for.
  bool anyOwesLent() const;
  /// NCCL gave up messages of a connection just now, or said so: it aborts, and its user waits for that.
  void abort(bool aborts) { abortedNs_ = aborts ? runNs() : INT64_MIN / 2; }
  bool aborts(int64_t now) const { return now - std::max(brokenOffNs_, abortedNs_) < kAbortNs; }
  /// Connects that NCCL no longer asks for, and processes that nothing connects us with any more.
  void tick(int64_t now);
  void endAbandoned(int64_t now);
  void shutdown() const;
  /// What they did, for the journal.
  struct Totals {
    uint64_t failovers = 0, failbacks = 0, acks = 0;
  };
  Totals totals() const;

 private:
  void endUnasked(Peer& peer, int64_t now);
  void end(SendConnection& connection);
  Shared& shared_;
  Streams& streams_;
  std::unordered_map<const Connection*, std::shared_ptr<Connection>> all_;
  static constexpr int64_t kAbortNs = msToNs(1000);
  int64_t nextLook_ = 0;
  int64_t brokenOffNs_ = INT64_MIN / 2;  // when a connection was last closed in the middle
  int64_t abortedNs_ = INT64_MIN / 2;    // when NCCL last said so
  Totals ended_;
};

}  // namespace r2cc
