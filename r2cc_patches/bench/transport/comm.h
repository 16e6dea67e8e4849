// One comm of the transport under test, with its registered memory.
//
// Closes in NCCL's order (transport/net.cc, sendProxyFree and recvProxyFree): deregister, then close; the listener is
// closed as soon as its connection is accepted. One error ends everything, as it does in NCCL.
#pragma once

#include <utility>
#include <vector>

#include "bench/transport/net.h"

namespace r2cc::bench {

enum class CommKind { Send, Receive, Listen };

class Comm {
 public:
  Comm(const Net& net, CommKind kind, int peer, int connection)
      : net_(&net), kind_(kind), peer_(peer), connection_(connection) {}
  // Closes quietly what close() has not: only on the way out after another error.
  ~Comm() {
    if (comm_ == nullptr) return;
    for (void* registration : registrations_) (void)net_->table().deregMr(comm_, registration);
    (void)closeComm();
  }
  Comm(Comm&& other) noexcept
      : net_(other.net_),
        kind_(other.kind_),
        peer_(other.peer_),
        connection_(other.connection_),
        comm_(std::exchange(other.comm_, nullptr)),
        registrations_(std::move(other.registrations_)) {}
  Comm& operator=(Comm&&) = delete;

  bool open() const { return comm_ != nullptr; }
  void* get() const { return comm_; }
  void** slot() { return &comm_; }  // where connect, accept and listen store the comm

  // Registers host memory and returns the handle that isend or irecv takes.
  void* registerMemory(void* data, size_t bytes) {
    void* registration = nullptr;
    checkNet(net_->table().regMr(comm_, data, bytes, NCCL_PTR_HOST, &registration), "regMr", peer_, connection_);
    registrations_.push_back(registration);
    return registration;
  }

  void close() {
    if (comm_ == nullptr) return;
    for (void* registration : registrations_) {
      checkNet(net_->table().deregMr(comm_, registration), "deregMr", peer_, connection_);
    }
    registrations_.clear();
    const ncclResult_t result = closeComm();
    comm_ = nullptr;
    checkNet(result, "close", peer_, connection_);
  }

 private:
  ncclResult_t closeComm() {
    switch (kind_) {
      case CommKind::Send:
        return net_->table().closeSend(comm_);
      case CommKind::Receive:
        return net_->table().closeRecv(comm_);
      case CommKind::Listen:
        return net_->table().closeListen(comm_);
    }
    return ncclInternalError;
  }

  const Net* net_;
  CommKind kind_;
  int peer_;
  int connection_;
  void* comm_ = nullptr;
  std::vector<void*> registrations_;
};

}  // namespace r2cc::bench
