// What fits into NCCL's 128-byte connect handle: who listens, the key to talk to it, and where to start talking.
#pragma once

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

  template <class A>
  void visit(A& a) {
    a(process), a(listen), a(key), a(dev), a.list(nics, kAddresses);
  }
};

void writeHandle(const ConnectHandle& handle, void* bytes);
/// False for bytes that no R2CC wrote (the peer runs another NCCL, or another R2CC_MODE).
bool readHandle(const void* bytes, ConnectHandle& handle);

}  // namespace r2cc
