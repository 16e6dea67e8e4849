#include "record/recorder.h"

#include <algorithm>
#include <utility>

#include "record/flight.h"

namespace r2cc {
namespace {

constexpr int64_t kAfterRecoveryNs = msToNs(100);  // the first messages after it belong into the dump
constexpr int64_t kIfItLastsNs = msToNs(1000);

/// How soon this change of state deserves a dump; negative: never.
int64_t dumpAfterNs(Track& track, ConnectionState next, uint32_t epoch) {
  switch (next) {
    case ConnectionState::Failed:
      return 0;
    case ConnectionState::Frozen:
    case ConnectionState::Holding:
      return kIfItLastsNs;
    case ConnectionState::Active: {
      const uint32_t before = track.activeEpoch.exchange(epoch, std::memory_order_relaxed);
      return before == 0 || before == epoch ? -1 : kAfterRecoveryNs;  // the first one is the connect
    }
    case ConnectionState::Connecting:
    case ConnectionState::Exchanging:
    case ConnectionState::Closed:
      break;
  }
  return -1;
}

}  // namespace

const char* name(RecordKind kind) {
  static constexpr std::pair<RecordKind, const char*> kNames[] = {
      {RecordKind::Post, "post"},     {RecordKind::Done, "done"},      {RecordKind::Released, "released"},
      {RecordKind::State, "state"},   {RecordKind::LaneUp, "lane_up"}, {RecordKind::LaneDown, "lane_down"},
      {RecordKind::Path, "path"},     {RecordKind::Nic, "nic"},        {RecordKind::Freeze, "freeze"},
      {RecordKind::Fenced, "fenced"}, {RecordKind::Switch, "switch"},  {RecordKind::Switched, "switched"},
      {RecordKind::Replay, "replay"},
  };
  for (const auto& [known, text] : kNames) {
    if (known == kind) return text;
  }
  return "?";
}

RecordRing::Snapshot RecordRing::snapshot() const {
  Snapshot out;
  const uint64_t end = head_.load(std::memory_order_acquire);
  out.first = end > capacity() ? end - capacity() : 0;
  out.records.reserve(end - out.first);
  for (uint64_t at = out.first; at < end; at++) {
    uint64_t w[kWords];
    for (size_t i = 0; i < kWords; i++) w[i] = words_[(at & mask_) * kWords + i].load(std::memory_order_acquire);
    const auto kind = static_cast<RecordKind>(w[3] >> 32 & 0xff);
    out.records.push_back({w[0], w[1], static_cast<uint32_t>(w[2]), static_cast<uint32_t>(w[2] >> 32),
                           static_cast<uint32_t>(w[3]), kind, static_cast<uint8_t>(w[3] >> 40),
                           static_cast<uint16_t>(w[3] >> 48)});
  }
  // The writer may be filling the place of record `now - capacity` at this moment: that one and all before it go.
  const uint64_t now = head_.load(std::memory_order_acquire);
  const uint64_t whole = now >= capacity() ? now - capacity() + 1 : 0;
  const uint64_t drop = std::min<uint64_t>(whole - std::min(whole, out.first), out.records.size());
  out.records.erase(out.records.begin(), out.records.begin() + static_cast<ptrdiff_t>(drop));
  out.first += drop;
  return out;
}

Recorder::Recorder(std::shared_ptr<Track> track) : track_(std::move(track)) {
  if (track_ != nullptr) clock_ = &track_->flight.clock();
}

void Recorder::write(const Record& record) {
  const std::lock_guard<std::mutex> lock(track_->eventMutex);
  track_->events.write(record);
}

void Recorder::rare(RecordKind kind, uint64_t number, uint32_t lane, uint32_t epoch, uint8_t code) {
  if (track_ != nullptr) write({clock_->now(), number, 0, lane, epoch, kind, code, 0});
}

void Recorder::state(uint8_t state, uint32_t epoch, const std::string& cause, const Route& route) {
  if (track_ == nullptr) return;
  const uint64_t ticks = clock_->now();
  track_->epoch.store(epoch, std::memory_order_relaxed);
  const uint16_t text = track_->flight.text(cause);
  track_->flight.describe(*track_, route);
  write({ticks, 0, 0, 0, epoch, RecordKind::State, state, text});
  if (const int64_t after = dumpAfterNs(*track_, static_cast<ConnectionState>(state), epoch); after >= 0) {
    track_->flight.incident(after);
  }
}

void Recorder::laneUp(uint32_t lane, size_t nic, size_t peerNic) {
  if (track_ == nullptr) return;
  const auto nics = static_cast<uint32_t>(nic << 16 | (peerNic & 0xffff));
  write({clock_->now(), 0, nics, lane, track_->epoch.load(std::memory_order_relaxed), RecordKind::LaneUp, 0, 0});
}

void Recorder::laneDown(uint32_t lane, const std::string& cause) {
  if (track_ == nullptr) return;
  const uint64_t ticks = clock_->now();
  const uint16_t text = track_->flight.text(cause);
  write({ticks, 0, 0, lane, track_->epoch.load(std::memory_order_relaxed), RecordKind::LaneDown, 0, text});
}

void Recorder::replay(uint32_t epoch, uint64_t first, size_t count) {
  if (track_ != nullptr) {
    write({clock_->now(), first, static_cast<uint32_t>(count), 0, epoch, RecordKind::Replay, 0, 0});
  }
}

}  // namespace r2cc
