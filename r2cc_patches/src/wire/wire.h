// The side channel's datagrams: one header, any number of messages, one keyed checksum.
//
//   header | (type u8, length u16, body) ... | SipHash tag of 16 bytes over everything before it
//
// With R2CC_TLS=1 all behind the header is encrypted, and the tag is AES-GCM's: as long, and over the same.
//
// Every message is idempotent: requests are repeated until answered, answers may be repeated at any time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/siphash.h"
#include "nccl_net.h"
#include "nic/nic_address.h"
#include "wire/encryption.h"

namespace r2cc {

constexpr uint32_t kMagic = 0x43433252;  // "R2CC"
constexpr uint8_t kWireVersion = 12;     // never 0 (refusal.h)
constexpr size_t kMaxDatagram = 1400;    // fits the smallest MTU anyone runs
constexpr size_t kMaxNics = 32;          // bits in Header::nicsUp
constexpr size_t kMaxReason = 160;       // bytes of text in a Bye
constexpr size_t kMaxLanes = 32;         // in one message

using InnerHandle = std::array<uint8_t, NCCL_NET_HANDLE_MAXSIZE>;

struct Header {
  uint64_t from = 0, to = 0;  // process ids
  uint64_t seq = 0;           // ascending per sender and peer; replays are dropped
  uint8_t keyOfSender = 0;    // whose key sealed this: the sender's own (1) or the receiver's (0)
  uint32_t nicsUp = 0;        // the sender's NICs, a bit per device
  uint32_t nicsVersion = 0;   // ascending; an older view never overwrites a newer one
  uint32_t nicsHeard = 0;     // NICs over which anybody was heard lately: these work, whatever one path says

  auto fields() { return inOrder(from, to, seq, keyOfSender, nicsUp, nicsVersion, nicsHeard); }
};

enum class Type : uint8_t {
  None = 0,
  Hello = 1,
  Welcome,
  OpenLane,
  LaneHandle,
  LaneUp,
  CloseLane,
  Suspect,
  Freeze,
  Fenced,
  Switch,
  Switched,
  Ack,
  Ping,
  Pong,
  Bye,
  PathDead,
  LookAt,
  Slow,
  PathHealth,
  Filler,  // means nothing: probes are as large as the data
  Addresses,
  Leaving,
  NoLeave,
};

/// sender -> receiver: a connection for the listen that `listen` names.
struct Hello {
  static constexpr Type kType = Type::Hello;
  uint64_t connection = 0, listen = 0;
  uint8_t homeDev = 0;
  std::vector<NicAddress> nics;
  auto fields() { return inOrder(connection, listen, homeDev, atMost(kMaxNics, nics)); }
};

struct Welcome {
  static constexpr Type kType = Type::Welcome;
  uint64_t connection = 0;
  uint8_t known = 0;  // 0: no such listen (the peer closed it)
  std::vector<NicAddress> nics;
  auto fields() { return inOrder(connection, known, atMost(kMaxNics, nics)); }
};

/// sender -> receiver: make an inner listen on `remoteDev` for lane `lane`.
struct OpenLane {
  static constexpr Type kType = Type::OpenLane;
  uint64_t connection = 0;
  uint32_t lane = 0;
  uint8_t localDev = 0, remoteDev = 0;  // as the sender of the message sees them
  auto fields() { return inOrder(connection, lane, localDev, remoteDev); }
};

struct LaneHandle {
  static constexpr Type kType = Type::LaneHandle;
  uint64_t connection = 0;
  uint32_t lane = 0;
  uint8_t failed = 0;
  InnerHandle handle{};
  auto fields() { return inOrder(connection, lane, failed, handle); }
};

template <Type T>
struct LaneRef {
  static constexpr Type kType = T;
  uint64_t connection = 0;
  uint32_t lane = 0;
  auto fields() { return inOrder(connection, lane); }
};
/// receiver -> sender: this lane is up here.
struct LaneUp {
  static constexpr Type kType = Type::LaneUp;
  uint64_t connection = 0;
  uint32_t lane = 0;
  uint8_t placed = 1;  // 0: it came in by another NIC than its path's
  auto fields() { return inOrder(connection, lane, placed); }
};
using CloseLane = LaneRef<Type::CloseLane>;  // of kNoLane: how much is there? Answered by Ack, or Bye

/// receiver -> sender: this lane failed at my end.
struct Suspect {
  static constexpr Type kType = Type::Suspect;
  uint64_t connection = 0;
  uint32_t epoch = 0, lane = 0;
  auto fields() { return inOrder(connection, epoch, lane); }
};

/// sender -> receiver: drain and fence every lane of the plan that the sender no longer has, count, and put `lane` in
/// their place.
struct Freeze {
  static constexpr Type kType = Type::Freeze;
  uint64_t connection = 0;
  uint32_t epoch = 0;
  uint32_t lane = 0;            // kNoLane: nothing to replace, only to agree what was agreed
  uint64_t completed = 0;       // messages the sender's user was told are done: the receiver must hold these
  uint32_t newestLane = 0;      // the list knows of lanes up to this one
  std::vector<uint32_t> lanes;  // those the sender has
  auto fields() { return inOrder(connection, epoch, lane, completed, newestLane, atMost(kMaxLanes, lanes)); }
};

struct Fenced {
  static constexpr Type kType = Type::Fenced;
  uint64_t connection = 0;
  uint32_t epoch = 0;
  uint8_t laneUsable = 0;         // 0: the receiver lost the lane; choose another under a new epoch
  uint64_t delivered = 0;         // messages below this are complete
  uint32_t deliveredMask = 0;     // bit i: message delivered + i is complete too
  uint32_t switchedEpoch = 0;     // the last Switch that was taken: its answer may have been lost
  uint64_t switchedBoundary = 0;  // and what that answer was
  static constexpr uint64_t kMasked = 32;
  bool has(uint64_t number) const {
    return number < delivered || (number - delivered < kMasked && (deliveredMask >> (number - delivered) & 1) != 0);
  }
  auto fields() {
    return inOrder(connection, epoch, laneUsable, delivered, deliveredMask, switchedEpoch, switchedBoundary);
  }
};

struct WeightedLane {
  uint32_t lane = 0;
  uint8_t weight = 0;
  auto fields() { return inOrder(lane, weight); }
};

/// sender -> receiver: from `boundary` on use these lanes, and cut messages like this; the answer may raise the
/// boundary.
struct Switch {
  static constexpr Type kType = Type::Switch;
  uint64_t connection = 0;
  uint32_t epoch = 0;
  uint64_t boundary = 0;
  std::vector<WeightedLane> lanes;
  uint8_t parts = 1;  // lanes/slicing.h
  uint32_t unit = 0;
  auto fields() { return inOrder(connection, epoch, boundary, atMost(kMaxLanes, lanes), parts, unit); }
};

struct Switched {
  static constexpr Type kType = Type::Switched;
  uint64_t connection = 0;
  uint32_t epoch = 0;
  uint64_t boundary = 0;
  auto fields() { return inOrder(connection, epoch, boundary); }
};

/// receiver -> sender: messages below `delivered` are complete.
struct Ack {
  static constexpr Type kType = Type::Ack;
  uint64_t connection = 0;
  uint64_t delivered = 0;
  auto fields() { return inOrder(connection, delivered); }
};

template <Type T>
struct Probe {
  static constexpr Type kType = T;
  uint32_t round = 0;
  auto fields() { return inOrder(round); }
};
using Ping = Probe<Type::Ping>;
constexpr uint32_t kNoRound = 0;                 // of a probe that is no evidence for or against others
constexpr uint32_t kOneWayRound = UINT32_MAX;    // asked by UDP alone or by TCP alone: answered by the same alone
constexpr uint32_t kDataRound = UINT32_MAX - 1;  // asked behind as much as data would be, over a stream
using Pong = Probe<Type::Pong>;

/// Either side: the connection is closed here; a receiver says how much it had.
struct Bye {
  static constexpr Type kType = Type::Bye;
  uint64_t connection = 0;
  uint8_t fromSender = 0;
  uint64_t delivered = 0;
  // Text for the other end's log; empty: it is simply done. NOLINTNEXTLINE(readability-redundant-member-init)
  std::vector<uint8_t> reason{};
  auto fields() { return inOrder(connection, fromSender, delivered, atMost(kMaxReason, reason)); }
};

/// Either way: probes over this path stayed silent. Look at all that shares a NIC with it.
struct PathDead {
  static constexpr Type kType = Type::PathDead;
  uint8_t localDev = 0, remoteDev = 0;  // as the sender of the message sees them
  auto fields() { return inOrder(localDev, remoteDev); }
};

/// receiver -> sender: a path over this NIC of mine died silently. Probe yours to it, whether or not they have traffic.
struct LookAt {
  static constexpr Type kType = Type::LookAt;
  uint8_t dev = 0;
  auto fields() { return inOrder(dev); }
};

/// Either way: a path over this NIC of the receiver (to whoever sends: of mine) carries less than its siblings. Whoever
/// saw the same of his own need not wait until he is sure.
struct Slow {
  static constexpr Type kType = Type::Slow;
  uint8_t dev = 0;
  auto fields() { return inOrder(dev); }
};

/// sender -> receiver: what this path carries, as its sender found; 0: silent. Repeated while it is less than all.
struct PathHealth {
  static constexpr Type kType = Type::PathHealth;
  uint8_t localDev = 0, remoteDev = 0;  // as the sender of the message sees them
  uint8_t percent = 100;
  auto fields() { return inOrder(localDev, remoteDev, percent); }
};

/// Either way: where my NICs are now; said again while what it changes is not used. As new as the header's nicsVersion.
struct Addresses {
  static constexpr Type kType = Type::Addresses;
  std::vector<NicAddress> nics;
  auto fields() { return inOrder(atMost(kMaxNics, nics)); }
};

/// receiver -> sender: which NICs of mine are to go away, a bit each: what uses them moves elsewhere. As new as
/// `version`; repeated while there are any. A build that does not know it leaves its connections where they are.
struct Leaving {
  static constexpr Type kType = Type::Leaving;
  uint32_t nics = 0, version = 0;
  auto fields() { return inOrder(nics, version); }
};

/// sender -> receiver: over `lane` no leave to send message `number` has come for a while (RDMA). Repeated until it
/// has. The receiver says Suspect if it gave that leave. A build that does not know it waits until its NIC gives up.
struct NoLeave {
  static constexpr Type kType = Type::NoLeave;
  uint64_t connection = 0;
  uint32_t lane = 0;
  uint64_t number = 0;
  auto fields() { return inOrder(connection, lane, number); }
};

/// One message, encoded: what waits in an outbox.
struct Encoded {
  Type type = Type::None;
  std::vector<uint8_t> body;
  template <class M>
  static Encoded of(const M& message) {
    Encoded out{M::kType, {}};
    Writer w(out.body);
    w(message);
    return out;
  }
};

/// Builds one datagram.
class Datagram {
 public:
  explicit Datagram(const Header& header);
  /// False, and nothing added, when the message does not fit any more.
  template <class M>
  bool add(const M& message) {
    const Encoded encoded = Encoded::of(message);
    return addRaw(encoded.type, encoded.body);
  }
  bool add(const Encoded& message) { return addRaw(message.type, message.body); }
  bool empty() const { return messages_ == 0; }
  /// Appends the checksum; the datagram is then ready to send.
  const std::vector<uint8_t>& seal(const PairKey& key);

 private:
  bool addRaw(Type type, const std::vector<uint8_t>& body);
  std::vector<uint8_t> bytes_;
  size_t messages_ = 0;
  uint64_t number_;
  bool fromListener_;
  size_t headerBytes_;
};

/// A received datagram. Its bytes must outlive it.
class Parsed {
 public:
  /// The header of something that may be ours; nothing in it is to be trusted before verify().
  static std::optional<Parsed> open(const uint8_t* data, size_t size);
  const Header& header() const { return header_; }
  bool verify(const Key& key) const;
  /// The same; what is encrypted can be read from then on.
  bool admit(const PairKey& key);
  /// Calls visitor(type, reader) for each message. False when the framing is broken.
  template <class F>
  bool forEach(F visitor) const {
    Reader r(plain_.empty() ? body_ : plain_.data(), bodySize_);
    while (r.left() > 0) {
      Type type = Type::None;
      uint16_t length = 0;
      r(type), r(length);
      Reader message = r.sub(length);
      if (!r.ok()) return false;
      visitor(type, message);
    }
    return true;
  }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  const uint8_t* body_ = nullptr;
  size_t bodySize_ = 0;
  std::vector<uint8_t> plain_;  // the body, where it was encrypted
  Header header_;
};

}  // namespace r2cc
