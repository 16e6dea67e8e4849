#include "lanes/slicing.h"

#include <algorithm>

#include "nccl_net.h"

namespace r2cc {
namespace {
// Parts on their way for each lane. Each waits behind what another connection has on that NIC, so that one would do if
// all took their turns evenly; on a slow NIC it takes longer. Large parts cost little, so there may be more of them.
constexpr int kPartsALane = 2, kLargeALane = 4;
constexpr size_t kLarge = 128 << 10;
constexpr size_t kAlign = 4096;
constexpr size_t kMost = UINT32_MAX / kAlign * kAlign;  // of a unit, on the wire
constexpr size_t kLeast = 18 << 10;                     // more than what is copied: see kKeepBytes
constexpr double kOff = 1.25;                           // parts so much too large, or too small, are worth a switch
}  // namespace

Piece pieceOf(const Slicing& cut, size_t size, int index) {
  if (cut.parts <= 1) return {0, size};
  const size_t from = std::min(static_cast<size_t>(cut.unit) * static_cast<size_t>(index), size);
  return {from, index + 1 == cut.parts ? size - from : std::min<size_t>(cut.unit, size - from)};
}

Slicing slicingFor(size_t lanes, int inFlight, size_t size) {
  if (lanes < 2 || inFlight < 1) return {};
  const auto each = [&](int aLane) { return (aLane * static_cast<int>(lanes) + inFlight - 1) / inFlight; };
  const int wanted = std::max(each(kPartsALane), std::min(each(kLargeALane), static_cast<int>(size / kLarge)));
  const int most = std::min({kMostParts, NCCL_NET_MAX_REQUESTS / inFlight, static_cast<int>(size / kLeast)});
  const int parts = std::min(wanted, most);
  if (parts < 2) return {};
  const size_t unit = (size + static_cast<size_t>(parts) - 1) / static_cast<size_t>(parts);
  return {static_cast<uint8_t>(parts), static_cast<uint32_t>(std::min((unit + kAlign - 1) / kAlign * kAlign, kMost))};
}

bool stillDoes(const Slicing& cut, const Slicing& wanted) {
  if (cut.parts != wanted.parts) return false;
  return cut.unit <= kOff * wanted.unit && wanted.unit <= kOff * cut.unit;
}

}  // namespace r2cc
