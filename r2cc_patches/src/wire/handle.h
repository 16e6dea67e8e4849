// What fits into NCCL's 128-byte connect handle: who listens, the key to talk to it, and where to start talking.
#pragma once

#include <cstring>
#include <vector>

#include "inner/plain.h"
#include "wire/wire.h"

namespace r2cc {

struct ConnectHandle {
  static constexpr size_t kAddresses = 3;  // Welcome brings the rest
  uint64_t process = 0;
  uint64_t listen = 0;
  Key key{};
  uint8_t dev = 0;
  std::vector<NicAddress> nics;

  auto fields() { return inOrder(process, listen, key, dev, atMost(kAddresses, nics)); }
};

inline void writeHandle(const ConnectHandle& handle, void* bytes) {
  std::vector<uint8_t> out;
  Writer w(out);
  w(kMagic), w(kWireVersion), w(handle);
  out.resize(NCCL_NET_HANDLE_MAXSIZE);  // three addresses leave room to spare; the state pointer starts as zero
  memcpy(bytes, out.data(), out.size());
}
/// False for bytes that no R2CC wrote (the peer runs another NCCL, or another R2CC_MODE).
inline bool readHandle(const void* bytes, ConnectHandle& handle) {
  Reader r(static_cast<const uint8_t*>(bytes), kHandleStateAt);
  uint32_t magic = 0;
  uint8_t version = 0;
  r(magic), r(version), r(handle);
  return r.ok() && magic == kMagic && version == kWireVersion;
}

}  // namespace r2cc
