// One comm of the transport under test, with its registered memory.
//
// Closes in NCCL's order (transport/net.cc, sendProxyFree and recvProxyFree): deregister, then close; the listener is
// closed as soon as its connection is accepted. One error ends everything, as it does in NCCL.
#pragma once

#include <vector>

#include "net.h"

namespace r2cc::bench {

enum class CommKind { Send, Receive, Listen };

class Comm {
 public:
  Comm(const Net& net, CommKind kind, int peer, int connection);
  // Closes quietly what close() has not: only on the way out after another error.
  ~Comm();
  Comm(Comm&& other) noexcept;
  Comm& operator=(Comm&&) = delete;

  bool open() const { return comm_ != nullptr; }
  void* get() const { return comm_; }
  void** slot() { return &comm_; }  // where connect, accept and listen store the comm

  // Registers host memory and returns the handle that isend or irecv takes.
  void* registerMemory(void* data, size_t bytes);

  void close();

 private:
  ncclResult_t closeComm();

  const Net* net_;
  CommKind kind_;
  int peer_;
  int connection_;
  void* comm_ = nullptr;
  std::vector<void*> registrations_;
};

}  // namespace r2cc::bench
