#include "comm.h"

#include <utility>

namespace r2cc::bench {

Comm::Comm(const Net& net, CommKind kind, int peer, int connection)
    : net_(&net), kind_(kind), peer_(peer), connection_(connection) {}

Comm::Comm(Comm&& other) noexcept
    : net_(other.net_),
      kind_(other.kind_),
      peer_(other.peer_),
      connection_(other.connection_),
      comm_(std::exchange(other.comm_, nullptr)),
      registrations_(std::move(other.registrations_)) {}

Comm::~Comm() {
  if (comm_ == nullptr) return;
  for (void* registration : registrations_) (void)net_->table().deregMr(comm_, registration);
  (void)closeComm();
}

void* Comm::registerMemory(void* data, size_t bytes) {
  void* registration = nullptr;
  checkNet(net_->table().regMr(comm_, data, bytes, NCCL_PTR_HOST, &registration), "regMr", peer_, connection_);
  registrations_.push_back(registration);
  return registration;
}

void Comm::close() {
  if (comm_ == nullptr) return;
  for (void* registration : registrations_) {
    checkNet(net_->table().deregMr(comm_, registration), "deregMr", peer_, connection_);
  }
  registrations_.clear();
  const ncclResult_t result = closeComm();
  comm_ = nullptr;
  checkNet(result, "close", peer_, connection_);
}

ncclResult_t Comm::closeComm() {
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

}  // namespace r2cc::bench
