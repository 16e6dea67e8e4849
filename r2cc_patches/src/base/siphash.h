// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): the keyed checksum of every datagram,
// and what derives one key from another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace r2cc {

using Key = std::array<uint8_t, 16>;

using Tag = std::array<uint8_t, 16>;

uint64_t sipHash(const Key& key, const uint8_t* data, size_t size);
/// The 128-bit variant of its authors' reference implementation.
Tag sipTag(const Key& key, const uint8_t* data, size_t size);
/// Takes the same time wherever the two differ: a forger learns nothing from how long a refusal takes.
bool sameTag(const Tag& tag, const uint8_t* other);

/// 16 bytes from the kernel. Throws std::runtime_error when it has none to give.
Key randomKey();
uint64_t randomId();

}  // namespace r2cc
