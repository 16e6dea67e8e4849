// Datagrams that were not acted on, by reason: all that an attack on the side channel changes.
#pragma once

#include <atomic>
#include <cstdint>

namespace r2cc {

struct Dropped {
  std::atomic<uint64_t> malformed{0};  // not our format, or (from an authenticated peer) a message that makes no sense
  std::atomic<uint64_t> stranger{0};   // names a process we do not know, or is not meant for this one
  std::atomic<uint64_t> forged{0};     // the tag is not what the key makes of the bytes
  std::atomic<uint64_t> replayed{0};   // genuine, but seen before
  std::atomic<uint64_t> refusals{0};   // "no such port" answers to something we never sent
  uint64_t sum() const { return malformed + stranger + forged + replayed + refusals; }
};

}  // namespace r2cc
