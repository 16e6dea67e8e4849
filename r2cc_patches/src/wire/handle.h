// What fits into NCCL's 128-byte connect handle: who listens, the key to talk to it, where to start talking, and what
// it is, so that the two ends learn at once whether they fit.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "inner/plain.h"
#include "wire/wire.h"

namespace r2cc {

/// The layout is the same from version 10 on, and what comes later comes behind: an end of another version must still
/// be able to say why it does not connect (Refusal).
struct ConnectHandle {
  static constexpr size_t kAddresses = 3;  // Welcome brings the rest
  uint64_t process = 0;
  uint64_t listen = 0;  // any number that names it; with R2CC_TLS the upper half says which secret it was made under
  Key key{};
  uint8_t dev = 0;
  std::vector<NicAddress> nics;
  std::array<uint8_t, 5> build{};  // the begin of R2CC's build id: no more fits; all zero: not known
  uint8_t modeAndInner = 0;        // two bits each, then one for R2CC_TLS; see Party

  auto fields() { return inOrder(process, listen, key, dev, atMost(kAddresses, nics), build, modeAndInner); }
};

inline void writeHandle(const ConnectHandle& handle, void* bytes) {
  std::vector<uint8_t> out;
  Writer w(out);
  w(kMagic), w(kWireVersion), w(handle);
  out.resize(NCCL_NET_HANDLE_MAXSIZE);  // three addresses fit exactly; the state pointer starts as zero
  memcpy(bytes, out.data(), out.size());
}
/// The version of the R2CC that wrote it; 0 for bytes that none wrote (the peer runs stock, or with R2CC_MODE=0).
inline uint8_t openHandle(const void* bytes, ConnectHandle& handle) {
  Reader r(static_cast<const uint8_t*>(bytes), kHandleStateAt);
  uint32_t magic = 0;
  uint8_t version = 0;
  r(magic), r(version), r(handle);
  return r.ok() && magic == kMagic ? version : 0;
}
/// False for bytes that no R2CC of this version wrote.
inline bool readHandle(const void* bytes, ConnectHandle& handle) { return openHandle(bytes, handle) == kWireVersion; }

}  // namespace r2cc
