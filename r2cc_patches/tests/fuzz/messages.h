// Every message of the wire, for code that treats them all alike. A new one is added here.
#pragma once

#include "wire/wire.h"

namespace r2cc::fuzz {

template <class F>
void forEachMessage(F f) {
  f(Hello{}), f(Welcome{}), f(OpenLane{}), f(LaneHandle{}), f(LaneUp{}), f(CloseLane{}), f(Suspect{}), f(Freeze{});
  f(Fenced{}), f(Switch{}), f(Switched{}), f(Ack{}), f(Ping{}), f(Pong{}), f(Bye{});
  f(PathDead{});
  f(LookAt{});
  f(Slow{});
  f(PathHealth{});
  f(Addresses{});
  f(Leaving{});
  f(NoLeave{});
}

}  // namespace r2cc::fuzz
