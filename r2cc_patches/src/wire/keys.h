// Keys made from keys. What a listener gives away in its handles is never used on the wire itself.
#pragma once

#include <cstdint>

#include "base/siphash.h"

namespace r2cc {

/// Seals the datagrams of one pair of processes, both directions: who connects, and to whom. Nothing sealed for one
/// pair is genuine for another.
Key pairKey(const Key& listener, uint64_t connector, uint64_t listenerId);

/// What the connecting end of a lane has to say before the listening end takes it. It is never sent over the side
/// channel: both ends derive it.
uint64_t laneSecret(const Key& pair, uint64_t connection, uint32_t lane);

}  // namespace r2cc
