// What NCCL keeps of an event: a number, not an address. NCCL may bring it back late (after the communicator has ended,
// or with its place in our tables taken by another), and then it must mean nothing.
#pragma once

#include <cstdint>

namespace r2cc::progress {

enum class Kind : unsigned { kNone, kComm, kTask, kOp, kStep };

struct Handle {
  Kind kind = Kind::kNone;
  unsigned comm = 0;  // its place in the table of communicators
  unsigned life = 0;  // how often that place was taken before
  unsigned slot = 0;  // the place of the task or operation in its communicator
  unsigned turn = 0;  // how often that was taken before

  static constexpr unsigned kKindBits = 3, kCommBits = 12, kLifeBits = 13, kSlotBits = 13, kTurnBits = 23;
  static constexpr unsigned mask(unsigned bits) { return (1U << bits) - 1; }

  static Handle of(const void* pointer) {
    uint64_t bits = reinterpret_cast<uintptr_t>(pointer);
    const auto take = [&bits](unsigned count) {
      const auto value = static_cast<unsigned>(bits & mask(count));
      bits >>= count;
      return value;
    };
    Handle handle;
    handle.kind = static_cast<Kind>(take(kKindBits));
    handle.comm = take(kCommBits);
    handle.life = take(kLifeBits);
    handle.slot = take(kSlotBits);
    handle.turn = take(kTurnBits);
    return handle;
  }

  void* pointer() const {
    uint64_t bits = turn & mask(kTurnBits);
    bits = bits << kSlotBits | (slot & mask(kSlotBits));
    bits = bits << kLifeBits | (life & mask(kLifeBits));
    bits = bits << kCommBits | (comm & mask(kCommBits));
    bits = bits << kKindBits | static_cast<unsigned>(kind);
    return reinterpret_cast<void*>(static_cast<uintptr_t>(bits));  // NOLINT: never followed
  }

  Handle as(Kind other) const {
    Handle same = *this;
    same.kind = other;
    return same;
  }
};
static_assert(Handle::kKindBits + Handle::kCommBits + Handle::kLifeBits + Handle::kSlotBits + Handle::kTurnBits == 64);
static_assert(sizeof(void*) == sizeof(uint64_t));

}  // namespace r2cc::progress
