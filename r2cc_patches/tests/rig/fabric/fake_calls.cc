// What the net calls: connecting, memory, messages.
#include <algorithm>

#include "fake_parts.h"

namespace r2cc::fake {

// ---- connecting -------------------------------------------------------------------------------------------------

ncclResult_t Fabric::listen(Host& host, int dev, void* handle, void** listenComm) {
  const Lock lock(mutex_);
  if (refuses({host.index, dev})) return ncclSystemError;
  Listener& listener = listeners_.emplace_back(Listener{&host, dev, {}});
  const Handle h{kHandleMagic, &listener, nullptr};
  memcpy(handle, &h, sizeof(h));
  *listenComm = &listener;
  counts_.listens++;
  return ncclSuccess;
}

Comm& Fabric::newComm(Host& host, int dev, bool sends, const std::shared_ptr<Wire>& wire) {
  Comm& comm = comms_.emplace_back(host, dev, sends, wire);
  comm.error = armed_.erase(comm.nic()) != 0;
  return comm;
}

void Fabric::tune(Comm& comm) {
  const Lock lock(mutex_);
  if (std::exchange(comm.tuned, true)) note(comm.name() + " is tuned twice");
  if (comm.posted > 0) note(comm.name() + " is tuned in use");
  counts_.tuned++;
}

ncclResult_t Fabric::connect(Host& host, int dev, void* handle, void** out) {
  const Lock lock(mutex_);
  *out = nullptr;
  Handle h = loadHandle(handle);
  if (h.magic != kHandleMagic) {
    note("connect with a handle that listen did not write");
    return ncclInvalidUsage;
  }
  if (refuses({host.index, dev})) return ncclSystemError;
  if (h.half == nullptr) {
    h.half = &halves_.emplace_back(Half{this, &host, dev, h.listener, nowNs() + someDelay(300000)});
    memcpy(handle, &h, sizeof(h));
    counts_.halves++;
    return ncclSuccess;
  }
  const Nic from{host.index, dev};
  const Nic to{h.listener->host->index, h.listener->dev};
  if (!carriesLocked(from, to) || !carriesLocked(to, from) || nowNs() < h.half->readyAt) return ncclSuccess;
  if (!h.listener->open) return ncclSystemError;
  const auto wire = std::make_shared<Wire>();
  wire->sender = &newComm(host, dev, true, wire);
  wire->receiver = &newComm(*h.listener->host, h.listener->dev, false, wire);
  wires_.push_back(wire);
  h.listener->pending.push_back(wire->receiver);
  h.half->alive = false;
  counts_.halves--;
  counts_.comms++, counts_.made++;
  h.half = nullptr;
  memcpy(handle, &h, sizeof(h));
  *out = wire->sender;
  return ncclSuccess;
}

ncclResult_t Fabric::accept(Listener& listener, void** out) {
  const Lock lock(mutex_);
  *out = nullptr;
  if (!listener.open) note("accept on a closed listen comm");
  if (refuses({listener.host->index, listener.dev})) return ncclSystemError;
  if (listener.pending.empty() || frozen_.count(listener.host->index) != 0) return ncclSuccess;
  *out = listener.pending.front();
  listener.pending.pop_front();
  counts_.comms++, counts_.made++;
  return ncclSuccess;
}

void Fabric::cancelConnect(Half& half) {
  const Lock lock(mutex_);
  if (!half.alive) return note("cancelConnect of what is not half made");
  half.alive = false;
  counts_.halves--;
}

void Fabric::cancelListen(Listener& listener) {
  const Lock lock(mutex_);
  if (!listener.open) return note("a listen comm is closed twice");
  listener.open = false;
  counts_.listens--;
  for (Comm* comm : listener.pending) comm->closed = true;  // as the kernel does with connections nobody accepted
}

// ---- memory and messages ----------------------------------------------------------------------------------------

ncclResult_t Fabric::regMr(Comm& comm, void* data, size_t size, int type, void** handle) {
  Lock lock(mutex_);
  *handle = nullptr;
  passMemory(lock, data);
  // A lane may be given up meanwhile, which the transport bears.
  if (ops_.memoryMayWait ? comm.closed : comm.over()) note("regMr on a dead " + comm.name());
  if ((type != NCCL_PTR_HOST && !play_.gpu) || lostDevice(comm.nic())) return ncclInternalError;
  if (comm.dev == refusesMemory_) return ncclSystemError;
  *handle = &mrs_.emplace_back(Mr{&comm, static_cast<const uint8_t*>(data), size, type});
  comm.mrs++;
  counts_.mrs++;
  return ncclSuccess;
}

ncclResult_t Fabric::deregMr(Comm& comm, Mr& mr) {
  const Lock lock(mutex_);
  if (!mr.alive || mr.comm != &comm) note("deregMr of memory that is not registered on this " + comm.name());
  if (comm.closed) note("deregMr after close of " + comm.name());
  const auto inside = [&](const Request* r) {
    const auto* at = static_cast<const uint8_t*>(r->data);
    return !over(*r) && r->size > 0 && at >= mr.data && at < mr.data + mr.size;
  };
  if (!comm.fenced && std::any_of(comm.outstanding.begin(), comm.outstanding.end(), inside)) {
    note("memory deregistered while a request of " + comm.name() + " uses it");
  }
  forget(comm, mr);
  mr.alive = false;
  comm.mrs--;
  counts_.mrs--;
  return ncclSuccess;
}

void Fabric::checkMemory(const Comm& comm, const void* data, size_t size, const Mr* mr) {
  if (play_.plain && mr == nullptr) return;
  if (mr == nullptr) return note("a message on " + comm.name() + " without a registration on this lane");
  if (!mr->alive || mr->comm != &comm) return note("use of memory after deregMr on " + comm.name());
  const auto* at = static_cast<const uint8_t*>(data);
  if (at < mr->data || at + size > mr->data + mr->size) note("a buffer outside its registration on " + comm.name());
}

/// A transport may refuse for now: no room, or (RDMA) no receive posted at the other end, as far as that has said so.
bool Fabric::mayPost(const Comm& comm) const {
  if (comm.outstanding.size() >= NCCL_NET_MAX_REQUESTS) return false;
  if (!comm.sends || play_.needsAck) return true;
  if (open(*comm.wire)) comm.wire->leave = comm.wire->receiver->posted;
  return comm.posted < comm.wire->leave;
}

ncclResult_t Fabric::post(Comm& comm, void* data, size_t size, int tag, Mr* mr, Request** request) {
  const Lock lock(mutex_);
  *request = nullptr;
  if (comm.over() || comm.drained) note("a message posted to a dead " + comm.name());
  checkMemory(comm, data, size, mr);
  if (comm.error && (comm.sends || !play_.confirms)) return ncclRemoteError;
  if (!mayPost(comm) || (!takesAll_ && sometimes(12))) return ncclSuccess;
  const bool part = play_.parts && tag == comm.highest && (data != comm.last || size == 0);  // not the same once more
  if (tag >= 0 && tag <= comm.highest && !part) {
    note("message " + std::to_string(tag) + " after " + std::to_string(comm.highest) + " on " + comm.name());
  }
  comm.highest = std::max(comm.highest, tag);
  comm.last = data;
  comm.posted++;
  Request& r = requests_.emplace_back(Request{&comm, data, size, tag, mr});
  comm.outstanding.push_back(&r);
  if (comm.sends) {
    const int64_t now = nowNs();
    const int64_t readAt = now + (sometimes(3) ? someDelay(200000) : 0);
    const bool behind = messageNs_ > 0 && !comm.wire->frames.empty();
    const int64_t begins = behind ? std::max(readAt, comm.wire->frames.back().arriveAt) : readAt;
    comm.wire->frames.push_back({&r, tag, readAt, begins + messageNs_ + someDelay(100000), false, {}});
    wake_.notify_all();
  } else {
    comm.waiting.push_back(&r);
  }
  *request = &r;
  return ncclSuccess;
}

ncclResult_t Fabric::test(Request& r, int* done, int* size) {
  const Lock lock(mutex_);
  *done = 0;
  Comm& comm = *r.comm;
  if (comm.over()) {
    note("a request of a dead " + comm.name() + " is tested");
    return ncclInternalError;
  }
  if (r.reported) note("a request is tested after it was done on " + comm.name());
  if (r.flush) return testFlush(r, done);
  if (!play_.anyOrder && !comm.outstanding.empty() && comm.outstanding.front() != &r) {
    note("requests tested out of order on " + comm.name());
  }
  Wire& wire = *comm.wire;
  advance(wire, nowNs());
  if (shortReads_ && !comm.sends && over(r) && ++r.reads < kShortReads) return ncclSuccess;
  if (over(r) && !(play_.drains && comm.error && !comm.drained)) {
    const auto mine = std::find(comm.outstanding.begin(), comm.outstanding.end(), &r);
    if (mine != comm.outstanding.end()) comm.outstanding.erase(mine);
    r.reported = true;
    *done = 1;
    if (size != nullptr) *size = static_cast<int>(r.size);
    return ncclSuccess;
  }
  // After what is good: InnerOps promises that every completion is seen, if need be by drain.
  if (comm.error || comm.drained) return ncclRemoteError;
  return hearsEnd(comm) ? ncclRemoteError : ncclSuccess;
}

/// Both ends hear of the other's end, if the path carries anything and what was on the way is through.
bool Fabric::hearsEnd(const Comm& comm) const {
  const Wire& wire = *comm.wire;
  const bool over = wire.lost || (comm.sends ? wire.receiver->over() : wire.sender->over() && wire.frames.empty());
  return over && open(wire);
}

void Fabric::fence(Comm& comm) {
  Lock lock(mutex_);
  if (!comm.fenced) pass(lock, comm, Call::Fence);
  if (comm.closed) note("fence after close of " + comm.name());
  if (comm.fenced) return;
  comm.fenced = true;
  counts_.fenced++;
  settle(comm, UINT64_MAX, false);
  if (comm.sends) {
    dropUnread(*comm.wire);
  } else {
    comm.waiting.clear();
  }
}

void Fabric::close(Comm& comm, bool sends) {
  const Lock lock(mutex_);
  if (comm.closed) return note(comm.name() + " is closed twice");
  if (comm.sends != sends) note(comm.name() + " is closed as the other kind");
  const bool inOrder = ops_.closesInOrder && sends && comm.outstanding.empty() && !comm.error;
  if (!comm.fenced && !inOrder) note(comm.name() + " is closed without a fence");
  if (comm.memoryCalls > 0) note(comm.name() + " is closed beside a call for its memory");
  if (comm.mrs != 0) note(comm.name() + " is closed with memory registered");
  comm.closed = true;
  counts_.comms--;
}

void Fabric::carries(Nic nic, double part) {
  const Lock lock(mutex_);
  parts_[nic] = part;
}

int64_t Fabric::unconfirmed(Comm& comm) {
  const Lock lock(mutex_);
  if (comm.over()) note("a dead " + comm.name() + " is asked what is confirmed");
  if (!comm.sends) return 0;
  advance(*comm.wire, nowNs());
  return comm.wire->missing();
}

int64_t Fabric::unread(Comm& comm) {
  const Lock lock(mutex_);
  if (comm.over()) note("a dead " + comm.name() + " is asked what is not read");
  if (comm.sends) return 0;
  advance(*comm.wire, nowNs());
  int64_t reads = 0;
  for (const Request* r : comm.outstanding) reads += r->complete ? kShortReads - r->reads : 0;
  for (const Frame& frame : comm.wire->frames) reads += frame.arrived ? kShortReads : 0;
  return reads;
}

bool Fabric::ended(const Comm& comm) const {
  const Lock lock(mutex_);
  return comm.error || hearsEnd(comm);
}

LaneSample Fabric::sample(Comm& comm) {
  constexpr double kBytesPerNs = 0.125;
  const Lock lock(mutex_);
  const int64_t now = nowNs();
  comm.said.quietNs = quietNs_;
  comm.said.waits = comm.sends && !comm.wire->frames.empty();
  comm.said.resent += comm.said.waits && stands(*comm.wire) ? 1 : 0;
  const auto part = parts_.find(comm.nic());
  if (part != parts_.end() && comm.saidAtNs > 0) {
    comm.said.bytes += static_cast<uint64_t>(part->second * kBytesPerNs * static_cast<double>(now - comm.saidAtNs));
    comm.said.busyNs += now - comm.saidAtNs;
  }
  comm.saidAtNs = now;
  return comm.said;
}

}  // namespace r2cc::fake
