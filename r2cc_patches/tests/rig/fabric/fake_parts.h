// What the fake fabric is made of. Only its own sources look inside.
#pragma once

#include <cstring>

#include "base/clock.h"
#include "fake_inner.h"

namespace r2cc::fake {

constexpr uint64_t kHandleMagic = 0x66616b656e657421;

/// What a listen handle holds; connect() keeps its half-made comm in it, as the real transports do.
struct Handle {
  uint64_t magic = 0;
  Listener* listener = nullptr;
  Half* half = nullptr;
};

inline Handle loadHandle(const void* bytes) {
  Handle h;
  memcpy(&h, bytes, sizeof(h));
  return h;
}

struct Mr {
  Comm* comm{};
  const uint8_t* data{};
  size_t size{};
  int type = NCCL_PTR_HOST;
  bool alive = true;
};

constexpr int kShortReads = 200;  // calls for a message, where reads are short

struct Request {
  Comm* comm{};
  void* data{};
  size_t size{};
  int tag{};
  Mr* mr{};
  bool flush = false;         // an iflush
  uint64_t flushesBelow = 0;  // what the comm wrote before this count
  bool complete = false;
  int64_t completeAt = 0;  // not before this time
  int reads = 0;           // calls that took a part of it, where reads are short
  bool reported = false;   // test() said done: the inner net has freed it
};

/// GPU data on its way to where the GPU sees it.
struct Unsettled {
  uint64_t count;
  uint8_t* to;
  std::vector<uint8_t> bytes;
};

struct Comm {
  Comm(Host& host, int dev, bool sends, std::shared_ptr<Wire> wire)
      : host(host), dev(dev), sends(sends), wire(std::move(wire)) {}
  Host& host;
  const int dev;
  const bool sends;
  const std::shared_ptr<Wire> wire;
  std::atomic<bool> inUse{false};
  std::atomic<int> memoryCalls{0};  // regMr and deregMr under way
  bool tuned = false, fenced = false, closed = false, error = false, drained = false;
  std::vector<Unsettled> unsettled;
  uint64_t stored = 0;  // messages written to GPU memory
  int flushes = 0;
  int mrs = 0;
  int highest = -1;                  // number of the last message posted
  const void* last = nullptr;        // where that one, or its last part, lies
  std::deque<Request*> outstanding;  // in the order posted, not yet reported done
  std::deque<Request*> waiting;      // receives without their message
  uint64_t posted = 0;
  LaneSample said{};  // what it carried
  int64_t saidAtNs = 0;
  bool over() const { return fenced || closed; }
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
  bool arrived = false;  // in the kernel of the other end
};

struct Wire {
  Comm* sender = nullptr;
  Comm* receiver = nullptr;
  std::deque<Frame> frames;
  bool lost = false;        // bytes of it are gone
  uint64_t leave = 0;       // to send (RDMA): receives that the sender knows of; it is told of them over the wire
  int64_t unconfirmed = 0;  // bytes that were taken and are gone: a kernel never takes those for confirmed

  /// What the other end's kernel does not have, now or ever.
  int64_t missing() const {
    int64_t bytes = unconfirmed;
    for (const Frame& frame : frames)
      bytes += frame.read && !frame.arrived ? static_cast<int64_t>(frame.bytes.size()) : 0;
    return bytes;
  }
};

struct Listener {
  Host* host;
  int dev;
  std::deque<Comm*> pending;
  bool open = true;
};

struct Half {
  Fabric* fabric{};
  Host* host{};
  int dev{};
  Listener* listener{};
  int64_t readyAt{};
  bool alive = true;
};

}  // namespace r2cc::fake
