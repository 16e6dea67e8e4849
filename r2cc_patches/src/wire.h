// The side channel's datagrams: one header, any number of messages, one keyed checksum.
//
//   header | (type u8, length u16, body) ... | siphash u64 over everything before it
//
// Every message is idempotent: requests are repeated until answered, answers may be repeated at any time.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "bytes.h"
#include "nccl_net.h"
#include "siphash.h"

namespace r2cc {

constexpr uint32_t kMagic = 0x43433252;  // "R2CC"
constexpr uint8_t kWireVersion = 1;
constexpr size_t kMaxDatagram = 1400;  // fits the smallest MTU anyone runs
constexpr size_t kMaxNics = 32;        // bits in Header::nicsUp
constexpr uint8_t kSideOnly = 1;       // NicAddress::flags: carries the side channel, never data

using InnerHandle = std::array<uint8_t, NCCL_NET_HANDLE_MAXSIZE>;

/// Where a NIC's side-channel socket listens.
struct NicAddress {
  uint8_t dev = 0;
  uint8_t flags = 0;
  uint8_t family = 0;  // AF_INET or AF_INET6
  uint8_t prefix = 0;  // bits
  uint16_t port = 0;
  std::array<uint8_t, 16> ip{};

  template <class A>
  void visit(A& a) {
    a(dev), a(flags), a(family), a(prefix), a(port), a(ip);
  }
  sockaddr_storage sockaddr() const;
  static NicAddress from(const sockaddr_storage& address);
  bool sameSubnet(const NicAddress& other) const;
  bool sameSocket(const NicAddress& other) const {
    return family == other.family && port == other.port && ip == other.ip;
  }
};

struct Header {
  uint64_t from = 0, to = 0;  // process ids
  uint64_t seq = 0;           // ascending per sender and peer; replays are dropped
  uint8_t keyOfSender = 0;    // whose key sealed this: the sender's own (1) or the receiver's (0)
  uint32_t nicsUp = 0;        // the sender's NICs, a bit per device
  uint32_t nicsVersion = 0;   // ascending; an older view never overwrites a newer one

  template <class A>
  void visit(A& a) {
    a(from), a(to), a(seq), a(keyOfSender), a(nicsUp), a(nicsVersion);
  }
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
};

/// sender -> receiver: a connection for the listen that `listen` names.
struct Hello {
  static constexpr Type kType = Type::Hello;
  uint64_t connection = 0, listen = 0;
  uint8_t homeDev = 0;
  std::vector<NicAddress> nics;
  template <class A>
  void visit(A& a) {
    a(connection), a(listen), a(homeDev), a.list(nics, kMaxNics);
  }
};

struct Welcome {
  static constexpr Type kType = Type::Welcome;
  uint64_t connection = 0;
  uint8_t known = 0;  // 0: no such listen (the peer closed it)
  std::vector<NicAddress> nics;
  template <class A>
  void visit(A& a) {
    a(connection), a(known), a.list(nics, kMaxNics);
  }
};

/// sender -> receiver: make an inner listen on `remoteDev` for lane `lane`.
struct OpenLane {
  static constexpr Type kType = Type::OpenLane;
  uint64_t connection = 0;
  uint32_t lane = 0;
  uint8_t localDev = 0, remoteDev = 0;  // as the sender of the message sees them
  template <class A>
  void visit(A& a) {
    a(connection), a(lane), a(localDev), a(remoteDev);
  }
};

struct LaneHandle {
  static constexpr Type kType = Type::LaneHandle;
  uint64_t connection = 0;
  uint32_t lane = 0;
  uint8_t failed = 0;
  InnerHandle handle{};
  template <class A>
  void visit(A& a) {
    a(connection), a(lane), a(failed), a(handle);
  }
};

template <Type T>
struct LaneRef {
  static constexpr Type kType = T;
  uint64_t connection = 0;
  uint32_t lane = 0;
  template <class A>
  void visit(A& a) {
    a(connection), a(lane);
  }
};
using LaneUp = LaneRef<Type::LaneUp>;
using CloseLane = LaneRef<Type::CloseLane>;

/// receiver -> sender: this lane failed at my end.
struct Suspect {
  static constexpr Type kType = Type::Suspect;
  uint64_t connection = 0;
  uint32_t epoch = 0, lane = 0;
  template <class A>
  void visit(A& a) {
    a(connection), a(epoch), a(lane);
  }
};

/// sender -> receiver: drain and fence every lane of the plan, count, and take all that is missing on `lane`.
struct Freeze {
  static constexpr Type kType = Type::Freeze;
  uint64_t connection = 0;
  uint32_t epoch = 0, lane = 0;
  uint64_t completed = 0;   // messages the sender's user was told are done: the receiver must hold these
  uint32_t oldestLane = 0;  // the sender has none below it any more
  template <class A>
  void visit(A& a) {
    a(connection), a(epoch), a(lane), a(completed), a(oldestLane);
  }
};

struct Fenced {
  static constexpr Type kType = Type::Fenced;
  uint64_t connection = 0;
  uint32_t epoch = 0;
  uint8_t laneUsable = 0;      // 0: the receiver lost the lane; choose another under a new epoch
  uint64_t delivered = 0;      // messages below this are complete
  uint32_t deliveredMask = 0;  // bit i: message delivered + i is complete too
  template <class A>
  void visit(A& a) {
    a(connection), a(epoch), a(laneUsable), a(delivered), a(deliveredMask);
  }
};

/// sender -> receiver: from `boundary` on use `lane`; the answer may raise the boundary.
struct Switch {
  static constexpr Type kType = Type::Switch;
  uint64_t connection = 0;
  uint32_t epoch = 0, lane = 0;
  uint64_t boundary = 0;
  template <class A>
  void visit(A& a) {
    a(connection), a(epoch), a(lane), a(boundary);
  }
};

struct Switched {
  static constexpr Type kType = Type::Switched;
  uint64_t connection = 0;
  uint32_t epoch = 0;
  uint64_t boundary = 0;
  template <class A>
  void visit(A& a) {
    a(connection), a(epoch), a(boundary);
  }
};

/// receiver -> sender: messages below `delivered` are complete.
struct Ack {
  static constexpr Type kType = Type::Ack;
  uint64_t connection = 0;
  uint64_t delivered = 0;
  template <class A>
  void visit(A& a) {
    a(connection), a(delivered);
  }
};

template <Type T>
struct Probe {
  static constexpr Type kType = T;
  uint32_t round = 0;
  template <class A>
  void visit(A& a) {
    a(round);
  }
};
using Ping = Probe<Type::Ping>;
using Pong = Probe<Type::Pong>;

/// Either side: the connection is closed here; a receiver says how much it had.
struct Bye {
  static constexpr Type kType = Type::Bye;
  uint64_t connection = 0;
  uint8_t fromSender = 0;
  uint64_t delivered = 0;
  template <class A>
  void visit(A& a) {
    a(connection), a(fromSender), a(delivered);
  }
};

/// Builds one datagram.
class Datagram {
 public:
  explicit Datagram(const Header& header);
  /// False, and nothing added, when the message does not fit any more.
  template <class M>
  bool add(const M& message) {
    std::vector<uint8_t> body;
    Writer w(body);
    w(message);
    return addRaw(M::kType, body);
  }
  bool empty() const { return messages_ == 0; }
  /// Appends the checksum; the datagram is then ready to send.
  const std::vector<uint8_t>& seal(const Key& key);

 private:
  bool addRaw(Type type, const std::vector<uint8_t>& body);
  std::vector<uint8_t> bytes_;
  size_t messages_ = 0;
};

/// A received datagram. Its bytes must outlive it.
class Parsed {
 public:
  /// The header of something that may be ours; nothing in it is to be trusted before verify().
  static std::optional<Parsed> open(const uint8_t* data, size_t size);
  const Header& header() const { return header_; }
  bool verify(const Key& key) const;
  /// Calls visitor(type, reader) for each message. False when the framing is broken.
  template <class F>
  bool forEach(F visitor) const {
    Reader r(body_, bodySize_);
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
  Header header_;
};

}  // namespace r2cc
