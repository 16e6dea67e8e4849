#include "versions.h"

namespace r2cc::progress {

uint64_t bytesOf(const char* type) {
  struct Named {
    const char* part;
    uint64_t bytes;
  };
  // NCCL writes "ncclFloat32", "ncclBfloat16", "ncclFloat8e4m3"; a float8 before what ends in other digits.
  static constexpr Named kTypes[] = {{"loat8", 1}, {"nt8", 1}, {"64", 8}, {"32", 4}, {"16", 2}};
  if (type == nullptr) return 0;
  for (const Named& named : kTypes) {
    if (strstr(type, named.part) != nullptr) return named.bytes;
  }
  return 0;
}

uint64_t bytesOf(uint8_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

ncclResult_t watch(void** context, int* mask, const Identity* identity, int watched) {
  *context = Core::ours().begin();
  if (*context == nullptr) return ncclSuccess;
  if (identity != nullptr) Core::ours().identify(*context, *identity);
  *mask = watched;
  return ncclSuccess;
}

}  // namespace r2cc::progress
