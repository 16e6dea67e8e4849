// What the fabric does only as RDMA with GPU memory: registration by descriptor, visibility, flushes, drain.
#include <sys/stat.h>

#include <algorithm>

#include "fake_parts.h"

namespace r2cc::fake {

// ---- registration -----------------------------------------------------------------------------------------------

ncclResult_t Fabric::regDmaBuf(Comm& comm, void* data, size_t size, int type, int fd, void** handle) {
  struct stat file{};
  const bool alive = fd >= 0 && fstat(fd, &file) == 0;
  {
    const Lock lock(mutex_);
    if (!alive) note("regMrDmaBuf with a dead descriptor on " + comm.name());
    dmaBufs_.push_back({comm.nic(), data, file.st_ino});
  }
  return regMr(comm, data, size, type, handle);
}

std::vector<DmaBuf> Fabric::dmaBufs() const {
  const Lock lock(mutex_);
  return dmaBufs_;
}

std::vector<int> Fabric::devsWith(int host, const void* data) const {
  const Lock lock(mutex_);
  std::set<int> devs;
  for (const Mr& mr : mrs_) {
    if (mr.alive && mr.data == data && !mr.comm->over() && mr.comm->host.index == host) devs.insert(mr.comm->dev);
  }
  return {devs.begin(), devs.end()};
}

void Fabric::useMr(const Request& request, const char* how) {
  if (request.mr == nullptr || request.mr->alive || request.size == 0) return;
  note("memory " + std::string(how) + " after deregMr by " + request.comm->name());
}

// ---- visibility -------------------------------------------------------------------------------------------------

/// What the NIC writes. Of GPU memory that is not yet what the GPU sees.
void Fabric::store(Comm& comm, Request& into, std::vector<uint8_t> bytes) {
  useMr(into, "written");
  if (bytes.empty()) return;
  auto* to = static_cast<uint8_t*>(into.data);
  if (!play_.gpu || needsNoFlush_ || into.mr == nullptr || into.mr->type != NCCL_PTR_CUDA) {
    memcpy(to, bytes.data(), bytes.size());
    return;
  }
  unflushed_[to] = bytes.size();
  comm.unsettled.push_back({comm.stored++, to, std::move(bytes)});
}

/// What the comm wrote before `before` arrives. Without a flush it may do so late, and nobody may rely on it.
void Fabric::settle(Comm& comm, uint64_t before, bool visible) {
  for (const Unsettled& u : comm.unsettled) {
    if (u.count >= before || (!visible && sometimes(2))) continue;
    memcpy(u.to, u.bytes.data(), u.bytes.size());
    if (visible) unflushed_.erase(u.to);
  }
  const auto gone = [&](const Unsettled& u) { return u.count < before; };
  comm.unsettled.erase(std::remove_if(comm.unsettled.begin(), comm.unsettled.end(), gone), comm.unsettled.end());
}

/// The memory may be gone after deregMr: nothing of the comm may land there any more, and nobody reads it.
void Fabric::forget(Comm& comm, const Mr& mr) {
  const auto inside = [&](const uint8_t* at) { return at >= mr.data && at < mr.data + mr.size; };
  const auto lands = [&](const Unsettled& u) { return inside(u.to); };
  comm.unsettled.erase(std::remove_if(comm.unsettled.begin(), comm.unsettled.end(), lands), comm.unsettled.end());
  for (auto it = unflushed_.begin(); it != unflushed_.end();) it = inside(it->first) ? unflushed_.erase(it) : ++it;
}

bool Fabric::reads(const void* data, size_t size) {
  const Lock lock(mutex_);
  const auto* from = static_cast<const uint8_t*>(data);
  const auto overlaps = [&](const auto& u) { return from < u.first + u.second && u.first < from + size; };
  if (std::none_of(unflushed_.begin(), unflushed_.end(), overlaps)) return true;
  note("GPU memory is read that no flush has made visible");
  return false;
}

int Fabric::flushes(Nic nic) const {
  const Lock lock(mutex_);
  int sum = 0;
  for (const Comm& comm : comms_) sum += comm.nic() == nic ? comm.flushes : 0;
  return sum;
}

ncclResult_t Fabric::flush(Comm& comm, int n, void** data, int* sizes, void** mrs, Request** request) {
  const Lock lock(mutex_);
  *request = nullptr;
  if (comm.sends) note("iflush on a " + comm.name());
  if (comm.over() || comm.drained) note("iflush on a dead " + comm.name());
  if (!play_.gpu || flushesNothing_) return ncclSuccess;  // nothing to flush, as with sockets
  for (int i = 0; i < n; i++) checkMemory(comm, data[i], static_cast<size_t>(sizes[i]), static_cast<Mr*>(mrs[i]));
  if (comm.error) return ncclRemoteError;
  Request& r = requests_.emplace_back(Request{&comm, nullptr, 0, 0, nullptr, true, comm.stored});
  r.completeAt = nowNs() + flushLateNs_ + someDelay(200000);
  comm.flushes++;
  *request = &r;
  return ncclSuccess;
}

ncclResult_t Fabric::testFlush(Request& r, int* done) {
  if (r.comm->error || r.comm->drained) return ncclRemoteError;
  if (nowNs() < r.completeAt || frozen_.count(r.comm->host.index) != 0) return ncclSuccess;
  settle(*r.comm, r.flushesBelow, true);
  r.reported = true;
  *done = 1;
  return ncclSuccess;
}

// ---- the end of a comm ------------------------------------------------------------------------------------------

/// Over as far as the transport is concerned; whether test() says so is another matter. A drained comm waits for
/// nothing.
bool Fabric::over(const Request& r) const { return r.complete && (r.comm->drained || nowNs() >= r.completeAt); }

void Fabric::drain(Comm& comm) {
  Lock lock(mutex_);
  pass(lock, comm, Call::Drain);
  if (comm.over()) return note("drain of a dead " + comm.name());
  if (comm.drained) return;
  advance(*comm.wire, nowNs());
  comm.drained = true;
  if (comm.sends) dropUnread(*comm.wire);
}

}  // namespace r2cc::fake
