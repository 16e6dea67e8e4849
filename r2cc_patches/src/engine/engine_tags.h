// What parts of the engine share: what woke it (numbers that tell its descriptors apart), and patience.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace r2cc {

constexpr uint64_t kTagDriver = 2000;     // and from here: a NIC whose driver talks
constexpr uint64_t kTagListen = 3000;     // and from here: a NIC whose TCP port somebody called
constexpr uint64_t kTagAckListen = 4000;  // the same for acknowledgements
constexpr uint64_t kTagStream = 100000;   // and from here: a stream's descriptor

constexpr int64_t kUdpPatienceNs = msToNs(20);  // a question by UDP without an answer: then over TCP as well
constexpr int64_t kAnnounceNs = msToNs(4000);   // how long it is said where our NICs are, after a change

}  // namespace r2cc
