// What one connection did lately: a ring of fixed-size records for messages, written by whoever owns the connection
// (ownership.h), and a small one for what is rare (states, lanes, handshakes), which messages never push out.
//
// Reading stops nobody. A record is four words, each stored with release order before the ring's head moves on. A
// reader copies, looks at the head again, and drops what may have been overwritten meanwhile: what it keeps is whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "record/ticks.h"

namespace r2cc {

/// What a connection is doing: in the journal by name, in the flight recorder's file by number.
enum class ConnectionState : uint8_t {
  Connecting,  // no lane yet
  Active,      // messages flow
  Frozen,      // a lane of the plan is fenced; another is being looked for
  Exchanging,  // sender: waiting for the receiver's count
  Holding,     // no path at all; waiting for one to return
  Closed,      // the peer closed it and nothing is missing
  Failed,      // given up, with a reason
};

/// "?" for a number that is none.
inline const char* name(ConnectionState state) {
  static constexpr const char* kNames[] = {"connecting", "active", "frozen", "exchanging",
                                           "holding",    "closed", "failed"};
  const auto index = static_cast<size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "?";
}

/// Part of the file format (docs/internals/trace.md): numbers are never reused.
enum class RecordKind : uint8_t {
  Post = 1,       // a message was given to a lane
  Done = 2,       // receiver: the message is complete
  Released = 3,   // sender: the receiver confirmed it and NCCL was told
  State = 16,     // code: the state; text: why
  LaneUp = 17,    // bytes: local NIC << 16 | the peer's NIC
  LaneDown = 18,  // text: why
  Path = 19,      // of the process: code: path state; bytes: as LaneUp; epoch: text of the peer
  Nic = 20,       // of the process: code: 1 up, 0 down; bytes: local NIC << 16
  Freeze = 21,    // number: messages below it are released; lane: to go on with
  Fenced = 22,    // number: messages below it are with the receiver; code: whether the lane can be used
  Switch = 23,    // number: the boundary proposed
  Switched = 24,  // number: the boundary agreed
  Replay = 25,    // bytes: how many messages go out again; number: the first of them
};
const char* name(RecordKind kind);

struct Record {
  uint64_t ticks = 0;  // TickClock's in memory, monotonic nanoseconds in a dump
  uint64_t number = 0;
  uint32_t bytes = 0;
  uint32_t lane = 0;
  uint32_t epoch = 0;
  RecordKind kind = RecordKind::Post;
  uint8_t code = 0;
  uint16_t text = 0;  // index in Flight's texts; 0 is none
};
constexpr size_t kRecordBytes = 32;
static_assert(sizeof(Record) == kRecordBytes, "the dump's format");

/// One writer at a time, any number of readers at any time.
class RecordRing {
 public:
  /// `records`: a power of two.
  explicit RecordRing(size_t records) : mask_(records - 1), words_(new Word[records * kWords]) {}
  size_t capacity() const { return mask_ + 1; }
  size_t bytes() const { return capacity() * kRecordBytes; }

  void write(const Record& r) {
    const uint64_t at = head_.load(std::memory_order_relaxed);
    Word* const words = &words_[(at & mask_) * kWords];
    // Release: who sees one of these words sees a head that says this place is being written.
    words[0].store(r.ticks, std::memory_order_release);
    words[1].store(r.number, std::memory_order_release);
    words[2].store(r.bytes | uint64_t{r.lane} << 32, std::memory_order_release);
    const uint64_t small = static_cast<uint8_t>(r.kind) | uint64_t{r.code} << 8 | uint64_t{r.text} << 16;
    words[3].store(r.epoch | small << 32, std::memory_order_release);
    head_.store(at + 1, std::memory_order_release);
  }

  struct Snapshot {
    uint64_t first = 0;  // how many records were written before the first of these
    std::vector<Record> records;
  };
  Snapshot snapshot() const;

 private:
  using Word = std::atomic<uint64_t>;
  static constexpr size_t kWords = kRecordBytes / sizeof(Word);
  const size_t mask_;
  std::unique_ptr<Word[]> words_;  // not initialized: pages that are never written take no memory
  std::atomic<uint64_t> head_{0};
};

class Flight;

/// Where a connection leads; known only after a while.
struct Route {
  std::string peer, homeNic;
  int peerHomeNic = -1;
};

/// Both rings of a connection, and what a dump says about it. Kept by Flight after the connection is gone.
struct Track {
  Track(Flight& flight, uint64_t id, bool sends, uint64_t peerProcess, size_t messages, size_t events)
      : flight(flight), id(id), sends(sends), peerProcess(peerProcess), messages(messages), events(events) {}
  size_t bytes() const { return messages.bytes() + events.bytes(); }
  Flight& flight;
  const uint64_t id;
  const bool sends;
  const uint64_t peerProcess;
  RecordRing messages;
  RecordRing events;
  std::mutex eventMutex;  // events come from several threads, but rarely
  std::atomic<uint32_t> epoch{0};
  std::atomic<uint32_t> activeEpoch{0};  // the last one in which messages flowed
  Route route;                           // guarded by Flight's mutex
};

/// What a connection writes to; records nothing unless a Flight made it.
class Recorder {
 public:
  Recorder() = default;
  explicit Recorder(std::shared_ptr<Track> track);

  // With the connection's ownership held.
  void post(uint64_t number, size_t bytes, uint32_t lane) { message(RecordKind::Post, number, bytes, lane); }
  void done(uint64_t number, size_t bytes, uint32_t lane) { message(RecordKind::Done, number, bytes, lane); }
  void released(uint64_t number, size_t bytes) { message(RecordKind::Released, number, bytes, 0); }

  // Any thread.
  void state(uint8_t state, uint32_t epoch, const std::string& cause, const Route& route);
  void laneUp(uint32_t lane, size_t nic, size_t peerNic);
  void laneDown(uint32_t lane, const std::string& cause);
  void freeze(uint32_t epoch, uint32_t lane, uint64_t released) { rare(RecordKind::Freeze, released, lane, epoch); }
  void fenced(uint32_t epoch, uint64_t delivered, bool usable) {
    rare(RecordKind::Fenced, delivered, 0, epoch, usable ? 1 : 0);
  }
  void proposeSwitch(uint32_t epoch, uint32_t lane, uint64_t at) { rare(RecordKind::Switch, at, lane, epoch); }
  void switched(uint32_t epoch, uint64_t at) { rare(RecordKind::Switched, at, 0, epoch); }
  void replay(uint32_t epoch, uint64_t first, size_t count);

 private:
  void message(RecordKind kind, uint64_t number, size_t bytes, uint32_t lane) {
    if (track_ == nullptr) return;
    const uint32_t epoch = track_->epoch.load(std::memory_order_relaxed);
    track_->messages.write({clock_->now(), number, static_cast<uint32_t>(bytes), lane, epoch, kind, 0, 0});
  }
  void rare(RecordKind kind, uint64_t number, uint32_t lane, uint32_t epoch, uint8_t code = 0);
  void write(const Record& record);
  std::shared_ptr<Track> track_;
  const TickClock* clock_ = nullptr;
};

}  // namespace r2cc
