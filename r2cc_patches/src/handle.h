// What fits into NCCL's 128-byte connect handle: who listens, the key to talk to it, and where to start talking.
#pragma once

#include <vector>

#include "wire.h"

namespace r2cc {

struct ConnectHandle {
  static constexpr size_t kAddresses = 3;  // Welcome brings the rest
  uint64_t process = 0;
  uint64_t listen = 0;
  Key key{};
  uint8_t dev = 0;
  std::vector<NicAddress> nics;

  template <class A>
  void visit(A& a) {
    a(process), a(listen), a(key), a(dev), a.list(nics, kAddresses);
  }
};

/// NCCL hands the same bytes to every connect() call of one connection: the last eight remember which it is.
constexpr size_t kHandleStateAt = NCCL_NET_HANDLE_MAXSIZE - sizeof(void*);

void writeHandle(const ConnectHandle& handle, void* bytes);
/// False for bytes that no R2CC wrote (the peer runs another NCCL, or another R2CC_MODE).
bool readHandle(const void* bytes, ConnectHandle& handle);

}  // namespace r2cc
