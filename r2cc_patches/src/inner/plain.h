// What is passed through: listens, comms and requests that the inner net made itself, for NICs that cannot be protected
// and in forked children. NCCL holds them marked in a bit that no pointer of either uses, and their handles carry a
// word where the inner nets' own are empty.
#pragma once

#include <cstdint>
#include <cstring>

#include "nccl_net.h"

namespace r2cc {

inline bool isPlain(const void* p) { return (reinterpret_cast<uintptr_t>(p) & 1) != 0; }
inline void* plain(void* p) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{1});  // NOLINT(performance-no-int-to-ptr)
}
inline void markPlain(void** p) {
  if (*p == nullptr) return;
  *p = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(*p) | 1);  // NOLINT(performance-no-int-to-ptr)
}

/// NCCL hands the same bytes to every connect() call of one connection: the last eight remember which it is.
constexpr size_t kHandleStateAt = NCCL_NET_HANDLE_MAXSIZE - sizeof(void*);
constexpr size_t kPlainAt =
    kHandleStateAt - sizeof(uint64_t);               // both inner nets' handles end before it (net_*_ops.inc)
constexpr uint64_t kPlainMark = 0x6e69616c70433252;  // "R2Cplain"

inline void markPlainHandle(void* handle) {
  memcpy(static_cast<uint8_t*>(handle) + kPlainAt, &kPlainMark, sizeof(kPlainMark));
}
inline bool isPlainHandle(const void* handle) {
  uint64_t mark = 0;
  memcpy(&mark, static_cast<const uint8_t*>(handle) + kPlainAt, sizeof(mark));
  return mark == kPlainMark;
}

}  // namespace r2cc
