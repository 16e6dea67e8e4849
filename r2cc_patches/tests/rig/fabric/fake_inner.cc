// The fabric itself: its life, its faults, its wires.
#include "fake_inner.h"

#include <algorithm>
#include <chrono>

#include "fake_parts.h"

namespace r2cc::fake {
namespace {

constexpr size_t kKernelFrames = 4;  // what a socket buffers: a send beyond it waits
constexpr auto kWireTurn = std::chrono::microseconds(150);

}  // namespace

// ---- life -------------------------------------------------------------------------------------------------------

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
    const auto over = [](const auto& w) { return w->sender->over() && w->receiver->over(); };
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
      std::count_if(comms_.begin(), comms_.end(), [&](const Comm& c) { return !c.over() && c.nic() == nic; }));
}

int Fabric::lanesWithout(int host, int count) const {
  const Lock lock(mutex_);
  return static_cast<int>(std::count_if(comms_.begin(), comms_.end(), [&](const Comm& c) {
    return !c.over() && c.host.index == host && c.mrs != count;
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
    wire->unconfirmed = wire->missing();
    const auto goes = [&](const Frame& frame) { return !play_.confirms || !frame.arrived; };
    wire->frames.erase(std::remove_if(wire->frames.begin(), wire->frames.end(), goes), wire->frames.end());
    wire->lost = true;
  }
}

void Fabric::cutOneWay(Nic from, Nic to) {
  const Lock lock(mutex_);
  oneWay_.insert({from, to});
}

void Fabric::healOneWay(Nic from, Nic to) {
  const Lock lock(mutex_);
  oneWay_.erase({from, to});
  wake_.notify_all();
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
    if (comm.over() || comm.nic() != nic) continue;
    comm.error = any = true;
  }
  if (!any) armed_.insert(nic);
}

void Fabric::resetSends(Nic nic) {
  const Lock lock(mutex_);
  for (const auto& wire : wires_) {
    if (wire->sender->over() || wire->sender->nic() != nic) continue;
    wire->sender->error = true;
    const auto goes = [](const Frame& frame) { return !frame.arrived; };
    wire->unconfirmed = wire->missing();
    wire->frames.erase(std::remove_if(wire->frames.begin(), wire->frames.end(), goes), wire->frames.end());
  }
}

void Fabric::readShort(bool on) {
  const Lock lock(mutex_);
  shortReads_ = on;
}

void Fabric::refuse(Nic nic, bool on) {
  const Lock lock(mutex_);
  on ? (void)refused_.insert(nic) : (void)refused_.erase(nic);
}

void Fabric::hold(Nic nic, Call call, bool on) {
  const Lock lock(mutex_);
  on ? (void)holds_.insert({nic, call}) : (void)holds_.erase({nic, call});
  released_.notify_all();
}

int Fabric::held(Nic nic, Call call) const {
  const Lock lock(mutex_);
  const auto found = held_.find({nic, call});
  return found == held_.end() ? 0 : found->second;
}

void Fabric::holdMemory(const void* data, bool on) {
  const Lock lock(mutex_);
  on ? (void)memoryHolds_.insert(data) : (void)memoryHolds_.erase(data);
  released_.notify_all();
}

int Fabric::heldMemory(const void* data) const {
  const Lock lock(mutex_);
  const auto found = memoryHeld_.find(data);
  return found == memoryHeld_.end() ? 0 : found->second;
}

void Fabric::passMemory(Lock& lock, const void* data) {
  memoryHeld_[data]++;
  released_.wait(lock, [&] { return memoryHolds_.count(data) == 0; });
  memoryHeld_[data]--;
}

void Fabric::pass(Lock& lock, const Comm& comm, Call call) {
  const std::pair<Nic, Call> here{comm.nic(), call};
  held_[here]++;
  released_.wait(lock, [&] { return holds_.count(here) == 0; });
  held_[here]--;
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
void Fabric::stand(Nic nic, bool on) {
  const Lock lock(mutex_);
  on ? void(standing_.insert(nic)) : void(standing_.erase(nic));
  wake_.notify_all();
}

bool Fabric::standsAt(Nic nic) const {
  const Lock lock(mutex_);
  return standing_.count(nic) != 0;
}

bool Fabric::stands(const Wire& wire) const {
  return standing_.count(wire.sender->nic()) != 0 || standing_.count(wire.receiver->nic()) != 0;
}

bool Fabric::open(const Wire& wire) const {
  return !stands(wire) && carriesLocked(wire.sender->nic(), wire.receiver->nic()) &&
         carriesLocked(wire.receiver->nic(), wire.sender->nic());
}

bool Fabric::advance(Wire& wire, int64_t now) {
  if (wire.frames.empty()) return false;
  if (frozen_.count(wire.sender->host.index) == 0) read(wire, now);
  if (!open(wire) || wire.lost) {
    if (!play_.confirms) return true;
  } else {
    for (Frame& frame : wire.frames) {
      if (!frame.read || frame.arriveAt > now) break;
      frame.arrived = true;
    }
  }
  while (!wire.frames.empty() && wire.frames.front().arrived) {
    Comm& to = *wire.receiver;
    if (to.over() || to.drained) {
      wire.unconfirmed = wire.missing();
      wire.frames.clear();
      break;
    }
    if (to.waiting.empty() || (to.error && !play_.confirms)) break;
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
    useMr(*frame.send, "read");
    const auto* from = static_cast<const uint8_t*>(frame.send->data);
    frame.bytes.assign(from, from + frame.send->size);
    frame.read = true;
    if (play_.needsAck) frame.send->complete = true;
  }
}

void Fabric::deliver(Wire& wire, Request& into) {
  Frame frame = std::move(wire.frames.front());
  wire.frames.pop_front();
  if (frame.tag != into.tag && into.tag >= 0) {  // else it is rescued, whatever it is
    note("message " + std::to_string(frame.tag) + " landed in the buffer of message " + std::to_string(into.tag));
  }
  if (frame.bytes.size() > into.size && into.tag < 0) return void(wire.receiver->error = true);
  if (frame.bytes.size() > into.size) return note("a message is longer than the buffer it landed in");
  into.size = frame.bytes.size();
  into.complete = true;
  if (play_.anyOrder) into.completeAt = nowNs() + someDelay(200000);
  store(*wire.receiver, into, std::move(frame.bytes));
  if (play_.needsAck || frame.send->comm->drained) return;
  frame.send->complete = true;
  frame.send->completeAt = nowNs() + lateNs_ + (play_.anyOrder ? someDelay(200000) : 0);
}

/// What is still in user memory when the sender stops never leaves it.
void Fabric::dropUnread(Wire& wire) {
  const auto unread = [](const Frame& frame) { return !frame.read; };
  wire.frames.erase(std::remove_if(wire.frames.begin(), wire.frames.end(), unread), wire.frames.end());
}

}  // namespace r2cc::fake
