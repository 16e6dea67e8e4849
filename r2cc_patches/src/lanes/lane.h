// A lane: one inner comm on one path. Made by the connector thread, used under its connection's ownership, closed by
// the connector thread again; in between nobody else touches the comm.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "inner/inner_net.h"
#include "lanes/lane_clock.h"
#include "paths/path.h"
#include "wire/wire.h"

namespace r2cc {

enum class LaneState : uint8_t {
  Requested,   // sender only: the receiver was asked for a handle
  Connecting,  // the connector works on it
  Up,
  Closed,  // fenced or being fenced, or given up; the connector frees it
};

/// Message numbers posted to the inner comm and not yet complete, oldest first. Ascending: invariant 2.
class PostedFifo {
 public:
  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == kSize; }
  uint64_t front() const { return front_; }
  void pop() { front_ = numbers_[++head_ % kSize]; }
  /// Everything posted and not yet over, oldest first; for transports whose requests end in any order.
  std::vector<uint64_t> all() const {
    std::vector<uint64_t> out;
    for (uint64_t i = head_; i < tail_; i++) out.push_back(numbers_[i % kSize]);
    return out;
  }
  /// False, and nothing posted, when `number` would break the ascending order or overflow.
  bool push(uint64_t number) {
    if (full() || (ever_ && number <= highest_)) return false;
    if (empty()) front_ = number;
    numbers_[tail_++ % kSize] = number;
    highest_ = number;
    ever_ = true;
    return true;
  }

 private:
  static constexpr uint64_t kSize = NCCL_NET_MAX_REQUESTS;
  uint64_t head_ = 0, tail_ = 0, front_ = 0;  // front_: that of numbers_, beside the rest in the cache
  uint64_t highest_ = 0;
  bool ever_ = false;
  uint64_t numbers_[kSize] = {};
};

constexpr uint32_t kNoLane = 0;  // lanes are numbered from 1

class Connection;

struct alignas(64) Lane {
  Lane(Connection* connection, uint32_t id, bool sends, Path* path, int dev, const InnerNet& inner, void* ctx)
      : inner(inner), connection(connection), id(id), sends(sends), path(path), dev(dev), ctx(ctx) {}

  // What every test of a message looks at comes first, in one line of the cache.
  const InnerNet inner;
  std::atomic<LaneState> state{LaneState::Requested};
  std::atomic<bool> error{false};  // the transport reported an error; the engine will see to it
  PostedFifo posted;

  Connection* const connection;  // may be gone: the engine looks it up before it follows it

  const uint32_t id;  // chosen by the sender, unique in the connection
  const bool sends;
  Path* const path;  // owned by the peer, which outlives its connections
  const int dev;     // local device of the inner net
  void* const ctx;
  std::shared_ptr<const void> keeps;  // what inner and ctx need to live; none where they outlive the process's engine

  bool remoteUp = false;  // sender: the receiver holds its end
  bool placed = true;     // both ends are on the NICs of its path; neighbours' ARP tables may say otherwise at first
  bool tells = false;  // what of its sends the other end's kernel has (InnerOps::unconfirmed); both ends do, or neither
  bool inOrder = false;  // it is closed without a fence: its kernel goes on with what it has
  int64_t createdNs = 0;
  std::atomic<int> users{0};  // calls for its memory under way: the closer waits for them

  void* comm = nullptr;
  void* listenComm = nullptr;  // receiver, until accepted
  InnerHandle handle{};
  LaneClock clock;                 // what it has carried, by the sender's own clock
  std::atomic<uint64_t> moved{0};  // bytes of messages that are over with the transport; the owner alone writes it
  LaneSample sampled{};            // the engine's: what was seen at its last look

  /// A message is over with the transport; returns all bytes so far. By the owner.
  uint64_t count(size_t size) {
    const uint64_t now = moved.load(std::memory_order_relaxed) + size;
    moved.store(now, std::memory_order_relaxed);
    return now;
  }
  bool usable() const { return state == LaneState::Up && (remoteUp || !sends); }
};

using LanePtr = std::shared_ptr<Lane>;

}  // namespace r2cc
