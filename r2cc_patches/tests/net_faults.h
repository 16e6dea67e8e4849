// The fault table: what breaks, when, and what traffic it hits. Every case ends with all messages delivered exactly
// once and in order, and nothing done to the transport that its contract forbids.
#pragma once

#include <string>

#include "net_rig.h"

namespace r2cc::fake {

enum class Fault { LinkAtSender, LinkAtReceiver, LinkAtBoth, BlackHole, ErrorAtSender, ErrorAtReceiver };
enum class When { Connect, FirstMessage, MidStream, LastMessage, Idle, DuringFailover, DuringFailback };
enum class Traffic { One, Sixteen, BothWays };

constexpr Fault kFaults[] = {Fault::LinkAtSender, Fault::LinkAtReceiver, Fault::LinkAtBoth,
                             Fault::BlackHole,    Fault::ErrorAtSender,  Fault::ErrorAtReceiver};
constexpr When kWhens[] = {When::Connect, When::FirstMessage,   When::MidStream,     When::LastMessage,
                           When::Idle,    When::DuringFailover, When::DuringFailback};
constexpr Traffic kTraffics[] = {Traffic::One, Traffic::Sixteen, Traffic::BothWays};

struct Case {
  Fault fault = Fault::LinkAtSender;
  When when = When::MidStream;
  Traffic traffic = Traffic::One;
  bool needsAck = true;
  Cut cut = Cut::Hold;
  uint64_t seed = 1;
  std::string name() const;
};

/// Makes the fault on a rail of host 0 (the sender of most traffic).
void inject(Rig& rig, Fault fault, int rail, Cut cut);
/// Takes it back.
void revert(Rig& rig, Fault fault, int rail);
/// Runs one case; what went wrong, or "".
std::string runCase(const Case& c);

}  // namespace r2cc::fake
