#include "wire/handle.h"

#include <cstring>

namespace r2cc {

void writeHandle(const ConnectHandle& handle, void* bytes) {
  std::vector<uint8_t> out;
  Writer w(out);
  w(kMagic), w(kWireVersion), w(handle);
  out.resize(NCCL_NET_HANDLE_MAXSIZE);  // three addresses leave room to spare; the state pointer starts as zero
  memcpy(bytes, out.data(), out.size());
}

bool readHandle(const void* bytes, ConnectHandle& handle) {
  Reader r(static_cast<const uint8_t*>(bytes), kHandleStateAt);
  uint32_t magic = 0;
  uint8_t version = 0;
  r(magic), r(version), r(handle);
  return r.ok() && magic == kMagic && version == kWireVersion;
}

}  // namespace r2cc
