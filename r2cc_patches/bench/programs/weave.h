// From a program (schedule.h) to what one rank does at the same time: each of its ends has its messages in order, and a
// message waits for exactly those on other ends that made its bytes, or that still need what it overwrites.
//
// As all waiting follows from one order that all ranks share, it cannot go round in a circle: the first transfer in
// that order that is not over can always go on.
#pragma once

#include "bench/programs/schedule.h"

namespace r2cc::bench {

// So many messages of one of this rank's ends must be over.
struct Need {
  uint32_t end = 0;
  uint32_t count = 0;
};

using Needs = std::vector<Need>;

struct Message {
  uint64_t offset = 0;  // bytes from the start of the send or receive buffer
  uint32_t bytes = 0;
  Action action = Action::Store;  // of a receive
  uint32_t turn = 0;              // a send begins when all of the turn before is over at this rank
  Needs needs;
};

// This rank's end of an edge.
struct End {
  uint32_t edge = 0;
  int peer = 0;
  bool sends = false;
  std::vector<Message> messages;
};

// `times`: the program so often, one after the other.
std::vector<End> weave(const Sequence& sequence, int rank, int times = 1);

}  // namespace r2cc::bench
