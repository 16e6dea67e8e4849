// The fault table: what breaks, when, and what traffic it hits. Every case ends with all messages delivered exactly
// once and in order, and nothing done to the transport that its contract forbids.
#pragma once

#include <string>

#include "rig.h"

namespace r2cc::fake {

enum class Fault {
  LinkAtSender,
  LinkAtReceiver,
  LinkAtBoth,
  BlackHole,
  ErrorAtSender,
  ErrorAtReceiver,
  OneWayThere,
  OneWayBack
};
enum class When {
  Connect,
  FirstMessage,
  MidStream,
  LastMessage,
  Idle,
  DuringFailover,
  DuringFailback,
  DuringBalance,
  Balanced
};
enum class Traffic { One, Sixteen, BothWays };

constexpr Fault kFaults[] = {Fault::LinkAtSender,  Fault::LinkAtReceiver,  Fault::LinkAtBoth,  Fault::BlackHole,
                             Fault::ErrorAtSender, Fault::ErrorAtReceiver, Fault::OneWayThere, Fault::OneWayBack};
constexpr When kWhens[] = {When::Connect,        When::FirstMessage,  When::MidStream,
                           When::LastMessage,    When::Idle,          When::DuringFailover,
                           When::DuringFailback, When::DuringBalance, When::Balanced};
constexpr Traffic kTraffics[] = {Traffic::One, Traffic::Sixteen, Traffic::BothWays};

/// NICs hit at once, of four: in the last case all come back after a while.
enum class Count { One, Two, AllButOne, All };
constexpr Count kCounts[] = {Count::One, Count::Two, Count::AllButOne, Count::All};

struct Case {
  Fault fault = Fault::LinkAtSender;
  When when = When::MidStream;
  Traffic traffic = Traffic::One;
  bool needsAck = true;
  bool plain = false;   // small messages are kept
  bool lends = false;   // plain, and NCCL lends its slots of large ones
  uint64_t window = 0;  // connections are a schedule's, which may have so many bytes under way
  Cut cut = Cut::Hold;
  uint64_t seed = 1;
  int mode = 1;
  Count count = Count::One;
  bool few = false;      // large messages, two at a time: they are cut once they are spread
  bool onlyNic = false;  // no other way: what is no error of a lane ends after a while
  std::string name() const;
  /// Modes below 2 have no balance to break, a host of one NIC none to go to.
  bool makesSense() const;
};

/// Makes the fault on a rail of host 0 (the sender of most traffic).
void inject(Rig& rig, Fault fault, int rail, Cut cut);
/// Takes it back.
void revert(Rig& rig, Fault fault, int rail);
/// Runs one case; what went wrong, or "".
std::string runCase(const Case& c);

}  // namespace r2cc::fake
