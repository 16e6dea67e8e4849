// Where few messages are on their way over several NICs, each is cut: else NICs rest while a connection waits for its
// oldest message. A part is a message like any other, with a number, a lane and a count of its own, so failovers know
// nothing of it; NCCL's message is over when all its parts are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace r2cc {

/// Into how many parts, and where: at multiples of `unit` bytes. Only the sender knows how large a message is when the
/// receiver posts buffers for it, so the cuts must not depend on that: parts beyond its end are empty, and the last has
/// all that is left.
struct Slicing {
  uint8_t parts = 1;
  uint32_t unit = 0;
  bool operator==(const Slicing& other) const { return parts == other.parts && unit == other.unit; }
  bool operator!=(const Slicing& other) const { return !(*this == other); }
};

constexpr int kMostParts = 8;

struct Piece {
  size_t offset, size;
};

/// Part `index` of a message or buffer of `size` bytes.
Piece pieceOf(const Slicing& cut, size_t size, int index);

/// For messages of `size` bytes, `inFlight` of them at a time, over `lanes` lanes. No part of a message of that size is
/// very small, and no more parts are on their way than a connection can know of.
Slicing slicingFor(size_t lanes, int inFlight, size_t size);

/// Whether a cut made for other sizes still does: none of its parts is much larger than those of a new one.
bool stillDoes(const Slicing& cut, const Slicing& wanted);

}  // namespace r2cc
