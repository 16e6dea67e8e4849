#include "net_fake_inner.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "clock.h"

namespace r2cc::fake {
namespace {

constexpr uint64_t kHandleMagic = 0x66616b656e657421;
constexpr size_t kKernelFrames = 4;  // what a socket buffers: a send beyond it waits
constexpr auto kWireTurn = std::chrono::microseconds(150);

struct Handle {
  uint64_t magic = 0;
  Listener* listener = nullptr;
  Half* half = nullptr;
};

Handle loadHandle(const void* bytes) {
  Handle h;
  memcpy(&h, bytes, sizeof(h));
  return h;
}

}  // namespace

struct Mr {
  Comm* comm;
  const uint8_t* data;
  size_t size;
  bool alive = true;
};

struct Request {
  Comm* comm;
  void* data;
  size_t size;
  int tag;
  bool complete = false;
  int64_t completeAt = 0;  // not before this time
  bool reported = false;   // test() said done: the inner net has freed it
};

struct Comm {
  Comm(Host& host, int dev, bool sends, std::shared_ptr<Wire> wire)
      : host(host), dev(dev), sends(sends), wire(std::move(wire)) {}
  Host& host;
  const int dev;
  const bool sends;
  const std::shared_ptr<Wire> wire;
  std::atomic<bool> inUse{false};
  bool fenced = false, closed = false, error = false;
  int mrs = 0;
  int highest = -1;                  // number of the last message posted
  std::deque<Request*> outstanding;  // in the order posted, not yet reported done
  std::deque<Request*> waiting;      // receives without their message
  uint64_t posted = 0;
  bool gone() const { return fenced || closed; }
  Nic nic() const { return {host.index, dev}; }
  std::string name() const {
    return std::string(sends ? "send" : "recv") + " comm of h" + std::to_string(host.index) + "/" + std::to_string(dev);
  }
};

struct Frame {
  Request* send;
  int tag;
  int64_t readAt, arriveAt;
  bool read = false;
  std::vector<uint8_t> bytes;
};

struct Wire {
  Comm* sender = nullptr;
  Comm* receiver = nullptr;
  std::deque<Frame> frames;
  bool lost = false;  // bytes of it are gone
};

struct Listener {
  Host* host;
  int dev;
  std::deque<Comm*> pending;
  bool open = true;
};

struct Half {
  Fabric* fabric;
  Host* host;
  int dev;
  Listener* listener;
  int64_t readyAt;
  bool alive = true;
};

/// One thread at a time in a comm: what Ownership promises.
struct Use {
  Use(Fabric& fabric, Comm& comm, const char* call) : comm(comm), mine(!comm.inUse.exchange(true)) {
    if (!mine) fabric.violation(std::string("two threads at once in ") + comm.name() + ", one in " + call);
  }
  ~Use() {
    if (mine) comm.inUse = false;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  Comm& comm;
  const bool mine;
};

// ---- the table --------------------------------------------------------------------------------------------------

struct Table {
  static Comm& comm(void* p) { return *static_cast<Comm*>(p); }
  static Fabric& fabric(void* p) { return *comm(p).host.fabric; }

  static ncclResult_t init(void**, uint64_t, ncclNetCommConfig_t*, ncclDebugLogger_t, ncclProfilerCallback_t) {
    return ncclInvalidUsage;  // the engine is made without it
  }
  static ncclResult_t devices(int* count) { return *count = 0, ncclSuccess; }
  static ncclResult_t properties(int, ncclNetProperties_t*) { return ncclInvalidUsage; }
  static ncclResult_t finalize(void*) { return ncclSuccess; }

  static ncclResult_t listen(void* ctx, int dev, void* handle, void** listenComm) {
    auto& host = *static_cast<Host*>(ctx);
    return host.fabric->listen(host, dev, handle, listenComm);
  }
  static ncclResult_t connect(void* ctx, int dev, void* handle, void** comm, ncclNetDeviceHandle_v11_t**) {
    auto& host = *static_cast<Host*>(ctx);
    return host.fabric->connect(host, dev, handle, comm);
  }
  static ncclResult_t accept(void* listenComm, void** comm, ncclNetDeviceHandle_v11_t**) {
    auto& listener = *static_cast<Listener*>(listenComm);
    return listener.host->fabric->accept(listener, comm);
  }
  static ncclResult_t regMr(void* c, void* data, size_t size, int, void** handle) {
    const Use use(fabric(c), comm(c), "regMr");
    return fabric(c).regMr(comm(c), data, size, handle);
  }
  static ncclResult_t regMrDmaBuf(void* c, void* data, size_t size, int type, uint64_t, int fd, void** handle) {
    if (fd < 0) fabric(c).violation("regMrDmaBuf without a descriptor");
    return regMr(c, data, size, type, handle);
  }
  static ncclResult_t deregMr(void* c, void* handle) {
    const Use use(fabric(c), comm(c), "deregMr");
    return fabric(c).deregMr(comm(c), *static_cast<Mr*>(handle));
  }
  static ncclResult_t isend(void* c, void* data, size_t size, int tag, void* mr, void*, void** request) {
    const Use use(fabric(c), comm(c), "isend");
    return fabric(c).post(comm(c), data, size, tag, static_cast<Mr*>(mr), reinterpret_cast<Request**>(request));
  }
  static ncclResult_t irecv(void* c, int n, void** data, size_t* sizes, int* tags, void** mrs, void**, void** request) {
    const Use use(fabric(c), comm(c), "irecv");
    if (n != 1) fabric(c).violation("irecv of more than one message");
    return fabric(c).post(comm(c), data[0], sizes[0], tags[0], static_cast<Mr*>(mrs[0]),
                          reinterpret_cast<Request**>(request));
  }
  static ncclResult_t iflush(void*, int, void**, int*, void**, void** request) {
    *request = nullptr;  // nothing to flush, as with sockets
    return ncclSuccess;
  }
  static ncclResult_t test(void* request, int* done, int* size) {
    auto& r = *static_cast<Request*>(request);
    const Use use(*r.comm->host.fabric, *r.comm, "test");
    return r.comm->host.fabric->test(r, done, size);
  }
  static ncclResult_t closeSend(void* c) {
    const Use use(fabric(c), comm(c), "closeSend");
    fabric(c).close(comm(c), true);
    return ncclSuccess;
  }
  static ncclResult_t closeRecv(void* c) {
    const Use use(fabric(c), comm(c), "closeRecv");
    fabric(c).close(comm(c), false);
    return ncclSuccess;
  }
  static ncclResult_t closeListen(void* listenComm) {
    cancelListen(listenComm);
    return ncclSuccess;
  }
  static void fence(void* c) {
    const Use use(fabric(c), comm(c), "fence");
    fabric(c).fence(comm(c));
  }
  static void cancelConnect(void* handle) {
    const Handle h = loadHandle(handle);
    if (h.half != nullptr) h.half->fabric->cancelConnect(*h.half);
  }
  static void cancelListen(void* listenComm) {
    auto& listener = *static_cast<Listener*>(listenComm);
    listener.host->fabric->cancelListen(listener);
  }

  static ncclNet_t net() {
    ncclNet_t t{};
    t.name = "Fake";
    t.init = init, t.devices = devices, t.getProperties = properties, t.finalize = finalize;
    t.listen = listen, t.connect = connect, t.accept = accept, t.closeListen = closeListen;
    t.regMr = regMr, t.regMrDmaBuf = regMrDmaBuf, t.deregMr = deregMr;
    t.isend = isend, t.irecv = irecv, t.iflush = iflush, t.test = test;
    t.closeSend = closeSend, t.closeRecv = closeRecv;
    return t;
  }
};

InnerNet Fabric::inner() const {
  static const ncclNet_t net = Table::net();
  static const InnerOps buffered = {Table::fence, Table::cancelConnect, Table::cancelListen, true};
  static const InnerOps direct = {Table::fence, Table::cancelConnect, Table::cancelListen, false};
  return {&net, needsAck_ ? &buffered : &direct};
}

// ---- life -------------------------------------------------------------------------------------------------------

Fabric::Fabric(int hosts, bool needsAck, uint64_t seed) : needsAck_(needsAck), random_(seed) {
  for (int i = 0; i < hosts; i++) hosts_.push_back({this, i});
  thread_ = std::thread([this] { run(); });
}

Fabric::~Fabric() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

/// The wires move by themselves, as NICs and helper threads do: a buffer given away early is touched early.
void Fabric::run() {
  Lock lock(mutex_);
  while (!stop_) {
    bool busy = false;
    const int64_t now = nowNs();
    for (const auto& wire : wires_) busy |= advance(*wire, now);
    const auto over = [](const auto& w) { return w->sender->gone() && w->receiver->gone(); };
    wires_.erase(std::remove_if(wires_.begin(), wires_.end(), over), wires_.end());
    if (busy) {
      wake_.wait_for(lock, kWireTurn);
    } else {
      wake_.wait(lock);
    }
  }
}

void Fabric::note(const std::string& what) {
  if (violations_.size() < 20) violations_.push_back(what);
}

void Fabric::violation(const std::string& what) {
  const Lock lock(mutex_);
  note(what);
}

std::vector<std::string> Fabric::violations() const {
  const Lock lock(mutex_);
  return violations_;
}

Counts Fabric::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

int Fabric::lanes(Nic nic) const {
  const Lock lock(mutex_);
  return static_cast<int>(
      std::count_if(comms_.begin(), comms_.end(), [&](const Comm& c) { return !c.gone() && c.nic() == nic; }));
}

int Fabric::lanesWithout(int host, int count) const {
  const Lock lock(mutex_);
  return static_cast<int>(std::count_if(comms_.begin(), comms_.end(), [&](const Comm& c) {
    return !c.gone() && c.host.index == host && c.mrs != count;
  }));
}

int64_t Fabric::someDelay(int64_t mostNs) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(mostNs)); }
bool Fabric::sometimes(unsigned oneIn) { return random_() % oneIn == 0; }

// ---- faults -----------------------------------------------------------------------------------------------------

void Fabric::cut(Nic nic, Cut how) {
  const Lock lock(mutex_);
  cut_.insert(nic);
  if (how == Cut::Hold) return;
  for (const auto& wire : wires_) {
    if (wire->sender->nic() != nic && wire->receiver->nic() != nic) continue;
    dropUnread(*wire);
    wire->frames.clear();
    wire->lost = true;
  }
}

void Fabric::cutOneWay(Nic from, Nic to) {
  const Lock lock(mutex_);
  oneWay_.insert({from, to});
}

void Fabric::heal(Nic nic) {
  const Lock lock(mutex_);
  cut_.erase(nic);
  wake_.notify_all();
}

void Fabric::healAll() {
  const Lock lock(mutex_);
  cut_.clear();
  oneWay_.clear();
  frozen_.clear();
  refused_.clear();
  wake_.notify_all();
}

void Fabric::breakComms(Nic nic) {
  const Lock lock(mutex_);
  bool any = false;
  for (Comm& comm : comms_) {
    if (comm.gone() || comm.nic() != nic) continue;
    comm.error = any = true;
  }
  if (!any) armed_.insert(nic);
}

void Fabric::refuse(Nic nic, bool on) {
  const Lock lock(mutex_);
  on ? (void)refused_.insert(nic) : (void)refused_.erase(nic);
}

void Fabric::freeze(int host, bool on) {
  const Lock lock(mutex_);
  on ? (void)frozen_.insert(host) : (void)frozen_.erase(host);
  wake_.notify_all();
}

void Fabric::endSendsLate(int64_t delayNs) {
  const Lock lock(mutex_);
  lateNs_ = delayNs;
}

bool Fabric::carriesLocked(Nic from, Nic to) const {
  return cut_.count(from) == 0 && cut_.count(to) == 0 && oneWay_.count({from, to}) == 0 &&
         frozen_.count(from.first) == 0 && frozen_.count(to.first) == 0;
}

bool Fabric::carries(Nic from, Nic to) const {
  const Lock lock(mutex_);
  return carriesLocked(from, to);
}

// ---- wires ------------------------------------------------------------------------------------------------------

/// A transport's data needs both ways: its own acknowledgements come back over the same path.
bool Fabric::open(const Wire& wire) const {
  return carriesLocked(wire.sender->nic(), wire.receiver->nic()) &&
         carriesLocked(wire.receiver->nic(), wire.sender->nic());
}

bool Fabric::advance(Wire& wire, int64_t now) {
  if (wire.frames.empty()) return false;
  if (frozen_.count(wire.sender->host.index) == 0) read(wire, now);
  if (!open(wire) || wire.lost) return true;
  while (!wire.frames.empty() && wire.frames.front().read && wire.frames.front().arriveAt <= now) {
    Comm& to = *wire.receiver;
    if (to.gone()) {
      wire.frames.clear();
      break;
    }
    if (to.waiting.empty() || to.error) break;
    deliver(wire, *to.waiting.front());
    to.waiting.pop_front();
  }
  return !wire.frames.empty();
}

/// The transport takes the bytes out of user memory: at any time between isend() and the request's end.
void Fabric::read(Wire& wire, int64_t now) {
  size_t held = 0;
  for (Frame& frame : wire.frames) {
    if (++held > kKernelFrames) return;
    if (frame.read) continue;
    if (frame.readAt > now) return;
    const auto* from = static_cast<const uint8_t*>(frame.send->data);
    frame.bytes.assign(from, from + frame.send->size);
    frame.read = true;
    if (needsAck_) frame.send->complete = true;
  }
}

void Fabric::deliver(Wire& wire, Request& into) {
  Frame frame = std::move(wire.frames.front());
  wire.frames.pop_front();
  if (frame.tag != into.tag) {
    note("message " + std::to_string(frame.tag) + " landed in the buffer of message " + std::to_string(into.tag));
  }
  if (frame.bytes.size() > into.size) return note("a message is longer than the buffer it landed in");
  if (!frame.bytes.empty()) memcpy(into.data, frame.bytes.data(), frame.bytes.size());
  into.size = frame.bytes.size();
  into.complete = true;
  if (needsAck_) return;
  frame.send->complete = true;
  frame.send->completeAt = nowNs() + lateNs_;
}

/// What is still in user memory when the sender stops never leaves it.
void Fabric::dropUnread(Wire& wire) {
  const auto unread = [](const Frame& frame) { return !frame.read; };
  wire.frames.erase(std::remove_if(wire.frames.begin(), wire.frames.end(), unread), wire.frames.end());
}

// ---- connecting -------------------------------------------------------------------------------------------------

ncclResult_t Fabric::listen(Host& host, int dev, void* handle, void** listenComm) {
  const Lock lock(mutex_);
  if (refused_.count({host.index, dev}) != 0) return ncclSystemError;
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

ncclResult_t Fabric::connect(Host& host, int dev, void* handle, void** out) {
  const Lock lock(mutex_);
  *out = nullptr;
  Handle h = loadHandle(handle);
  if (h.magic != kHandleMagic) {
    note("connect with a handle that listen did not write");
    return ncclInvalidUsage;
  }
  if (refused_.count({host.index, dev}) != 0) return ncclSystemError;
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
  if (refused_.count({listener.host->index, listener.dev}) != 0) return ncclSystemError;
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

ncclResult_t Fabric::regMr(Comm& comm, void* data, size_t size, void** handle) {
  const Lock lock(mutex_);
  if (comm.gone()) note("regMr on a dead " + comm.name());
  *handle = &mrs_.emplace_back(Mr{&comm, static_cast<const uint8_t*>(data), size});
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
    return (!r->complete || nowNs() < r->completeAt) && r->size > 0 && at >= mr.data && at < mr.data + mr.size;
  };
  if (!comm.fenced && std::any_of(comm.outstanding.begin(), comm.outstanding.end(), inside)) {
    note("memory deregistered while a request of " + comm.name() + " uses it");
  }
  mr.alive = false;
  comm.mrs--;
  counts_.mrs--;
  return ncclSuccess;
}

void Fabric::checkMemory(const Comm& comm, const void* data, size_t size, const Mr* mr) {
  if (mr == nullptr) return note("a message on " + comm.name() + " without a registration on this lane");
  if (!mr->alive || mr->comm != &comm) return note("use of memory after deregMr on " + comm.name());
  const auto* at = static_cast<const uint8_t*>(data);
  if (at < mr->data || at + size > mr->data + mr->size) note("a buffer outside its registration on " + comm.name());
}

/// A transport may refuse for now: no room, or (RDMA) no receive posted at the other end.
bool Fabric::mayPost(const Comm& comm) const {
  if (comm.outstanding.size() >= NCCL_NET_MAX_REQUESTS) return false;
  return !comm.sends || needsAck_ || comm.posted < comm.wire->receiver->posted;
}

ncclResult_t Fabric::post(Comm& comm, void* data, size_t size, int tag, Mr* mr, Request** request) {
  const Lock lock(mutex_);
  *request = nullptr;
  if (comm.gone()) note("a message posted to a dead " + comm.name());
  checkMemory(comm, data, size, mr);
  if (comm.error) return ncclRemoteError;
  if (!mayPost(comm) || sometimes(12)) return ncclSuccess;
  if (tag <= comm.highest) {
    note("message " + std::to_string(tag) + " after " + std::to_string(comm.highest) + " on " + comm.name());
  }
  comm.highest = tag;
  comm.posted++;
  Request& r = requests_.emplace_back(Request{&comm, data, size, tag});
  comm.outstanding.push_back(&r);
  if (comm.sends) {
    const int64_t now = nowNs();
    const int64_t readAt = now + (sometimes(3) ? someDelay(200000) : 0);
    comm.wire->frames.push_back({&r, tag, readAt, readAt + someDelay(100000), false, {}});
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
  if (comm.gone()) {
    note("a request of a dead " + comm.name() + " is tested");
    return ncclInternalError;
  }
  if (r.reported) note("a request is tested after it was done on " + comm.name());
  if (!comm.outstanding.empty() && comm.outstanding.front() != &r)
    note("requests tested out of order on " + comm.name());
  Wire& wire = *comm.wire;
  advance(wire, nowNs());
  if (r.complete && nowNs() >= r.completeAt) {
    if (!comm.outstanding.empty()) comm.outstanding.pop_front();
    r.reported = true;
    *done = 1;
    if (size != nullptr) *size = static_cast<int>(r.size);
    return ncclSuccess;
  }
  if (comm.error) return ncclRemoteError;  // after what is good: InnerOps promises that every completion is seen
  // Both ends hear of the other's end, if the path carries anything and what was on the way is through.
  const bool over = wire.lost || (comm.sends ? wire.receiver->gone() : wire.sender->gone() && wire.frames.empty());
  return over && open(wire) ? ncclRemoteError : ncclSuccess;
}

void Fabric::fence(Comm& comm) {
  const Lock lock(mutex_);
  if (comm.closed) note("fence after close of " + comm.name());
  if (comm.fenced) return;
  comm.fenced = true;
  counts_.fenced++;
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
  if (!comm.fenced) note(comm.name() + " is closed without a fence");
  if (comm.mrs != 0) note(comm.name() + " is closed with memory registered");
  comm.closed = true;
  counts_.comms--;
}

}  // namespace r2cc::fake
