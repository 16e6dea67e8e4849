// One isend or irecv of NCCL's, and where it stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lanes/lane.h"

namespace r2cc {

class Connection;

///   Free -> Waiting -> Posted -> Finished -> Released -> Waiting ...
///              ^          |          |           |
///              +--- Lose -+----------+           +- Lose -> Resending -> Reposted -> Released
enum class RequestState : uint8_t {
  Free,       // never used
  Waiting,    // NCCL gave it, and no lane has it, or has it any more
  Posted,     // a lane has it
  Finished,   // sender: its lane is done with it; receiver: the message is here
  Released,   // NCCL knows that it is done
  Resending,  // as Waiting, of a released one: our copy goes out again
  Reposted,   // as Posted, of such a one
};

enum class RequestEvent : uint8_t { Give, Post, Finish, Release, Lose };

/// Every transition there is.
constexpr RequestState after(RequestState state, RequestEvent event) {
  const bool released = state >= RequestState::Released;
  switch (event) {
    case RequestEvent::Give:
      return RequestState::Waiting;
    case RequestEvent::Post:
      return released ? RequestState::Reposted : RequestState::Posted;
    case RequestEvent::Finish:
      if (state == RequestState::Free) return state;
      return released ? RequestState::Released : RequestState::Finished;
    case RequestEvent::Release:
      return RequestState::Released;
    case RequestEvent::Lose:
      return released ? RequestState::Resending : RequestState::Waiting;
  }
  return state;
}

/// Who answers for a finished message.
enum class Surety : uint8_t {
  Receiver,  // nobody but the receiver, who has not said so yet
  Lane,      // its transport: the receiver has it
  Kernel,    // the receiver's kernel has it
  Slot,      // `data` is NCCL's slot, lent until the receiver has the message
  Copy,      // `data` is a copy of ours
  Flush,     // of a receive: it was flushed before it counted
};

/// NCCL's request pointer is the address of one of these.
struct alignas(64) Request {
  Connection* connection = nullptr;
  uint64_t number = 0;
  void* inner = nullptr;    // the inner net's request while posted
  uint32_t lane = kNoLane;  // the lane it was posted on
  RequestState state = RequestState::Free;
  Surety surety = Surety::Receiver;
  uint8_t parts = 1;     // of NCCL's message, which is tested by the first; 0: it is another of them
  bool isFlush = false;  // for good: NCCL's own flush, `flush` is all there is to it
  void* data = nullptr;
  size_t size = 0;
  void* mr = nullptr;
  void* profiler = nullptr;
  uint64_t mark = 0;      // sender: what its lane had sent with it
  void* flush = nullptr;  // receiver: the inner net's flush of GPU memory while under way
  int tag = 0;
  bool wasLent = false;  // sender: the copy is of a slot, whose memory NCCL took back

  void on(RequestEvent event) { state = after(state, event); }
  /// NCCL holds it.
  bool held() const { return state > RequestState::Free && state < RequestState::Released; }
  bool finished() const { return state == RequestState::Finished || state == RequestState::Released; }
  /// It is a part of a message.
  bool cut() const { return parts != 1; }
  bool waits() const { return state == RequestState::Waiting || state == RequestState::Resending; }
  /// A copy, a slot, or the kernel's word, is as good on whatever lane.
  void postedOn(const Lane& by) {
    on(RequestEvent::Post);
    lane = by.id;
    if (surety <= Surety::Lane) surety = by.inner.ops->needsAck ? Surety::Receiver : Surety::Lane;
  }
  /// Its lane is lost, and the message with it.
  void lose() {
    if (surety == Surety::Kernel && state < RequestState::Released)
      surety = Surety::Receiver;  // of a part: the others were not over
    on(RequestEvent::Lose);
    lane = kNoLane;
    inner = flush = nullptr;
  }
};

/// The messages that a connection knows of at once, by number.
class Requests {
 public:
  /// `size`: a power of two.
  Requests(Connection* connection, size_t size) : all_(size) {
    for (Request& request : all_) request.connection = connection;
  }
  Request& operator[](uint64_t number) { return all_[number & (all_.size() - 1)]; }
  const Request& operator[](uint64_t number) const { return all_[number & (all_.size() - 1)]; }
  size_t size() const { return all_.size(); }
  /// Of a message of NCCL's, by its first.
  Request& part(const Request& head, int index) { return (*this)[head.number + static_cast<uint64_t>(index)]; }
  const Request& part(const Request& head, int index) const {
    return (*this)[head.number + static_cast<uint64_t>(index)];
  }
  /// Of all its parts.
  size_t bytes(const Request& head) const {
    size_t sum = 0;
    for (int index = 0; index < head.parts; index++) sum += part(head, index).size;
    return sum;
  }
  /// It is needed next: the ring is long, and its far side is in no cache.
  void fetch(uint64_t number) {
    const auto* at = reinterpret_cast<const char*>(&(*this)[number]);
    for (size_t byte = 0; byte < sizeof(Request); byte += 64) __builtin_prefetch(at + byte, 1);
  }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<Request> all_;
};

}  // namespace r2cc
