// Another process, as seen through one key: its NICs, the paths to them, and the datagrams exchanged with it.
// A pair of processes that connect to each other both ways has two of these, one a key.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ownership.h"
#include "paths/capacity.h"
#include "paths/path.h"
#include "wire/side_channel.h"
#include "wire/wire.h"

namespace r2cc {

class SendConnection;
class RecvConnection;

constexpr int64_t kStragglersNs = msToNs(5);  // what was on its way when a process ended is heard later

/// What a receiving connection has, and how much of that its sender was told.
struct Delivered {
  explicit Delivered(uint64_t connection) : connection(connection) {}
  const uint64_t connection;
  std::atomic<uint64_t> count{0};  // messages below this are complete
  std::atomic<uint64_t> acked{0};  // written under Peer::ackOwner, by whichever connection sends for all
};

/// What this process shows of itself in every header. Written by the engine, read by every sender of datagrams.
struct Self {
  uint64_t id = 0;
  Key key{};
  std::shared_ptr<const Encryption> encryption;  // null: nothing is encrypted. Set once, before anybody sends
  std::atomic<uint32_t> nicsUp{0};
  std::atomic<uint32_t> nicsVersion{1};  // stored after what it is the version of, and so read before it
  std::atomic<uint32_t> nicsHeard{0};

  /// A version never comes with what was true before it: the other end would take that for good.
  void show(Header& header) const {
    header.nicsVersion = nicsVersion.load(std::memory_order_acquire);
    header.nicsUp = nicsUp.load(std::memory_order_relaxed);
    header.nicsHeard = nicsHeard.load(std::memory_order_relaxed);
  }
};

/// Accepts each sequence number once, within a window wide enough that a datagram delayed on one busy NIC is still
/// taken after later ones came over another.
class ReplayWindow {
 public:
  bool accept(uint64_t seq) {
    if (seq > highest_) {
      seen_ <<= std::min<uint64_t>(seq - highest_, kBits);
      seen_.set(0);
      highest_ = seq;
      return true;
    }
    const uint64_t back = highest_ - seq;
    if (back >= kBits || seen_.test(back)) return false;
    seen_.set(back);
    return true;
  }
  /// Sent after all others that came: who sent it lived longer than they tell.
  bool isNewest(uint64_t seq) const { return seq == highest_; }
  /// One that was accepted lately: its twin, if it came both ways.
  bool knows(uint64_t seq) const { return seq <= highest_ && highest_ - seq < kBits && seen_.test(highest_ - seq); }

 private:
  static constexpr uint64_t kBits = 1024;
  uint64_t highest_ = 0;
  std::bitset<kBits> seen_;
};

class Peer {  // NOLINT(clang-analyzer-optin.performance.Padding): members stand by what they are for
 public:
  /// `weConnect`: our connections to it, sealed with its key; else its connections to us, sealed with ours.
  Peer(uint64_t id, bool weConnect, PairKey key, const Self& self, const SideChannel& side,
       const std::vector<LocalNic>& local, const Probation& probation);

  const uint64_t id;
  const bool weConnect;
  const PairKey key;
  /// Whether a NIC of ours has its link.
  bool linkUpHere(size_t nic) const { return (self_.nicsUp.load(std::memory_order_relaxed) >> nic & 1) != 0; }

  /// Makes the paths: NICs of one subnet face each other; a NIC that shares a subnet with none faces all.
  /// Called again with a longer list (Welcome completes what the handle began); paths that exist stay. `version`: of
  /// the header that brought it; a newer list also says where known NICs are now. Returns the paths to such.
  std::vector<Path*> setRemote(const std::vector<NicAddress>& nics, uint32_t version = 0);
  /// No two NICs that face each other are left: pairs that a router may join are tried from now on.
  void addByRouter();
  /// The path over which a NIC of the other end reached one of ours, though they do not face each other. Null: it is no
  /// such.
  Path* meet(size_t localNic, const NicAddress& from);
  /// A NIC of ours has another address: its paths lead elsewhere, and there may be more of them.
  void moveLocal(size_t nic);
  const std::vector<NicAddress>& remote() const { return remote_; }
  /// Paths never move or die before the peer does.
  const std::vector<std::unique_ptr<Path>>& paths() const { return paths_; }
  /// A connection carries something for the first time: what others get of what was lost depends on who is at home on
  /// what is left.
  void recount();
  Path* find(size_t localNic, const NicAddress& from) const;
  /// The same for a stream, whose port says nothing.
  Path* findByAddress(size_t localNic, const NicAddress& from) const;
  /// The path data takes from our device to its device: that pair, or where routing leads for it. Null: none.
  Path* route(uint8_t localDev, uint8_t remoteDev) const;
  /// Where that device cannot be reached, now or ever: to any device, from this one if it can be. Null: none.
  Path* anyRoute(uint8_t localDev) const;
  /// Between NICs that are devices of the same number at both ends.
  bool onRail(const Path& path) const { return local_[path.local].address.dev == remote_[path.remote].dev; }
  /// Other NICs at both ends, of other failure domains: what takes one of them down leaves the other.
  bool apart(const Path& a, const Path& b) const;
  /// At an end another NIC of the same failure domain: two ports of one adapter, two VLANs of one link.
  bool kin(const Path& a, const Path& b) const;
  /// Whether some path that works is apart from this one.
  bool hasApart(const Path& from) const;
  /// Between exactly these two NICs, whatever it is for; where routing leads when there is none. Null: none.
  Path* pathOf(uint8_t local, uint8_t remoteDev) const;
  /// Not one by a router that never answered, where another of NICs that face each other is up: nobody asks for it.
  bool counts(const Path& path) const;
  /// A second way is there, or was just now: what comes twice is no replay.
  bool hearsTwice(int64_t now) const;
  std::string describe() const;
  /// For a log, our NICs towards it: "; no link at h1: eth0; no link at peer 10.1.0.3: eth1", empty where all have
  /// theirs. By names, since the peer passes it on. `host`: ours.
  std::string lostLinks(const std::string& host) const;
  /// The others: "eth3".
  std::string linkedNics() const { return nicsTowards()[2]; }
  /// Another round of probes begins.
  void beginRound(int64_t now);
  /// A probe of this round was answered.
  void answered(Path& path, uint32_t which, int64_t now);
  /// How long answers take: the slowest of late, half as much every 500 ms. When all paths were slow and become quick
  /// again one by one, the first must not speak against the others.
  int64_t answerNs(int64_t now) const;
  /// How long to wait before the next round: where answers are slow, more questions would only make them slower.
  int64_t roundEveryNs(int64_t now) const;
  int64_t sentAt(uint32_t which) const;

  Datagram datagram() const;
  uint64_t sentSeq() const { return seq_.load(std::memory_order_relaxed); }
  /// Thread-safe: seals and sends, both ways where there are two.
  bool send(const Path& path, Datagram& datagram) const;
  bool sendByUdp(const Path& path, Datagram& datagram) const;
  bool sendByTcp(const Path& path, Datagram& datagram) const;
  /// A question that is answered over the same path.
  void ping(Path& path, uint32_t round, int64_t now) const;
  /// One that is asked and answered by UDP alone, and one by TCP alone.
  void pingEachWay(Path& path, int64_t now) const;
  template <class M>
  bool sendOn(const Path& path, const M& message) const {
    Datagram d = datagram();
    return d.add(message) && send(path, d);
  }
  /// Handshakes: on the two best paths and on the side-only interface. They leave together when the engine's turn ends,
  /// so that a failover of many connections is a few datagrams; of hundreds, some while others are still being fenced.
  template <class M>
  void tell(const M& message) {
    outbox_.push_back(Encoded::of(message));
    if (outbox_.size() >= kMostWaiting) flushOutbox();
  }
  /// The same on every path: the best two may be black holes.
  template <class M>
  void tellEverywhere(const M& message) {
    outboxEverywhere_.push_back(Encoded::of(message));
  }
  void flushOutbox();
  /// Of the healthy ones those heard from last: answers go back the way the question came.
  std::vector<const Path*> best(size_t count) const;

  std::atomic<size_t> connections{0};  // that messages may pass on
  /// When a lane or stream to it last broke, as all do when its process ends.
  std::atomic<int64_t> brokeNs{INT64_MIN / 2};
  /// And nothing was heard since, but for what was on its way.
  bool brokeOff() const { return lastHeard <= brokeNs.load(std::memory_order_relaxed) + kStragglersNs; }

  // Acknowledgements of what this peer sends us. Counted by the threads that receive, sent by whoever comes first.
  std::atomic<int> acksDue{0};
  std::atomic<int64_t> acksSinceNs{0};
  std::atomic<bool> acksHeld{false};  // some are due, and wait for others
  std::atomic<int> receiving{0};      // messages that NCCL waits for, of all connections
  /// In a hurry also over the side-only interface, where no data queues before them: the sender waits for nothing else.
  void flushAcks(const Path& path, bool hurry = false);
  Ownership ackOwner;  // guards `receives` and the connections' acked counts
  std::vector<Delivered*> receives;

  // The rest belongs to the engine.
  std::map<uint64_t, std::shared_ptr<SendConnection>> sends;
  std::map<uint64_t, std::shared_ptr<RecvConnection>> receivesById;
  std::map<uint64_t, uint64_t> closedAt;  // receive connections closed here: how much they had
  ReplayWindow replays;
  uint32_t remoteUp = ~uint32_t{0}, remoteVersion = 0;
  uint32_t remoteLeaving = 0, leavingVersion = 0;  // its NICs that are to go away
  int64_t lastHeard = 0;  // by what it sent last: what a kernel sends again after a process's end is older
  int64_t lastCalled = 0, lastAsked = 0;
  int64_t firstBrokeNs = INT64_MIN / 2;  // brokeNs, of the first that nothing was heard after
  int64_t owedSince = 0;                 // it owes us something; 0: nothing
  int64_t settledNs = 0;                 // after a failover: no lanes are made before, but to recover
  uint32_t round = 0;
  int64_t lastRound = 0;
  std::array<int64_t, 512> roundNs{};  // when the last rounds were sent
  uint32_t answeredRound = 0;          // the newest that any path answered
  int64_t openSince = 0;               // when the one after it was sent
  int64_t slowestNs = 0, slowestAt = 0;
  bool known = false;                     // it was heard: it knows us, too
  bool streamed = false;                  // a stream was up: TCP passes, and a refusal is the host's own
  bool streams = false;                   // some path has, or had, a second way
  int64_t streamEndedNs = INT64_MIN / 2;  // and when the last one ended
  int64_t lastPong = INT64_MIN / 2;       // an answer to a question, over whatever path
  int64_t answersSince = INT64_MIN / 2;   // and it answers steadily since then
  int64_t emptySince = 0;                 // neither end has a connection to the other
  int exchanging = 0;                     // connections that wait for the other end's count
  uint64_t heardAtSeq = 0;                // the last datagram sent to it when it was last heard
  uint64_t acksSent = 0;
  uint64_t nextRepaired = 0;        // the connection whose acknowledgement the next pong begins with
  uint32_t remoteHeard = 0;         // the NICs over which it hears anybody
  uint32_t plansVersion = 1;        // ascends when a path comes, goes, or changes what it can carry, and by recount()
  std::vector<double> demand;       // connections at home on each local NIC, as of demandVersion
  std::map<uint64_t, Path*> whole;  // of these: who goes whole over another path (wholeByTurns)
  uint32_t demandVersion = 0;
  Capacities capacities;
  bool resends = false;       // some connection has copies to send again
  bool onLastResort = false;  // and NCCL's log says so
  bool saidHeld = false;      // that no lane can be made, though a path is up

 private:
  static constexpr size_t kMostWaiting = 32;
  void sendAll(const std::vector<const Path*>& paths, const std::vector<Encoded>& messages) const;
  void collectAcks(const Path& path, bool hurry);
  void sendAcks(const Path& path, const std::vector<Ack>& acks) const;
  bool sendToAckPort(const Path& path, Datagram& datagram) const;
  bool sendByStream(const Path& path, const StreamSlot& slot, const std::vector<uint8_t>& bytes) const;
  /// Names of NICs by what their paths lack: the link here, that of the peer's, none.
  std::array<std::string, 3> nicsTowards() const;
  Path& addPath(size_t local, size_t remote);
  void addPaths();
  bool has(size_t local, size_t remote) const;
  bool mayMeet(size_t local, size_t remote) const;
  std::vector<const Path*> sideOnly() const;
  void place(Path& path) const;
  /// Known NICs stand at their index for ever.
  bool moveRemote(const NicAddress& nic, bool newer, std::vector<Path*>& moved);
  /// Any thread.
  NicAddress whereIs(const Path& path) const {
    const std::lock_guard<std::mutex> lock(remoteMutex_);
    return remote_[path.remote];
  }
  std::atomic<int> acksAsked_{0};
  const Self& self_;
  const SideChannel& side_;
  const std::vector<LocalNic>& local_;
  // Known NICs may move and paths may be added: the engine does so under the mutex, beside the threads that send.
  std::vector<NicAddress> remote_;
  mutable std::mutex remoteMutex_;
  uint32_t addressesVersion_ = 0;
  bool triedRouter_ = false;
  const Probation probation_;
  std::vector<std::unique_ptr<Path>> paths_;
  std::vector<Encoded> outbox_, outboxEverywhere_;
  // Ascending also beyond our own forgetting: the other end may remember for longer.
  mutable std::atomic<uint64_t> seq_{static_cast<uint64_t>(nowNs() / 1000)};
};

}  // namespace r2cc
