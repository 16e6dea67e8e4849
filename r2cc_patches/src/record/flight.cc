#include "record/flight.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/signals.h"
#include "record/flight_file.h"

namespace r2cc {
namespace {

constexpr size_t kMostMessages = 4096, kLeastMessages = 64;  // records of a connection; a record is 32 bytes
constexpr size_t kEvents = 64;                               // about eight failovers
constexpr size_t kProcessEvents = 1024;
constexpr size_t kShares = 16;      // a new connection takes at most this part of what is left
constexpr size_t kMostTexts = 512;  // and none longer than kMostTextBytes
constexpr size_t kMostTextBytes = 200;
constexpr int kMostDumps = 8;  // of incidents and requests; later ones replace the last
constexpr int64_t kPollNs = msToNs(1000);
constexpr int64_t kSettleNs = msToNs(500);  // between two dumps, so that a flapping link does not fill a disk

int64_t modified(const std::string& file) {
  struct stat s{};
  return stat(file.c_str(), &s) == 0 ? int64_t{s.st_mtim.tv_sec} * 1000000000 + s.st_mtim.tv_nsec : 0;
}

}  // namespace

Flight::Flight(FlightOptions options)
    : options_(std::move(options)),
      file_(dumpName(options_.file)),
      request_(requestName(options_.file)),
      processEvents_(kProcessEvents),
      requestSeen_(modified(request_)),
      wakeFd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  // The thread takes no signals: SIGXFSZ (a file-size limit) must be an error code here, and the rest are not ours.
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { loop(); });
  pthread_setname_np(thread_.native_handle(), "r2cc-flight");
}

Flight::~Flight() {
  stop_ = true;
  wake();
  thread_.join();
}

void Flight::wake() {
  const uint64_t one = 1;
  (void)!write(wakeFd_.get(), &one, sizeof(one));
}

// ---- rings ------------------------------------------------------------------------------------------------------

/// Early connections get long rings, later ones shorter ones: the sum stays within the limit, but for the least that
/// each one gets.
size_t Flight::share() const {
  size_t used = 0;
  for (const auto& track : tracks_) used += track->bytes();
  const size_t most = used < options_.bytes ? (options_.bytes - used) / kShares : 0;
  size_t records = kMostMessages;
  while (records > kLeastMessages && records * kRecordBytes > most) records /= 2;
  return records;
}

/// Connections that are gone keep their rings until half of the memory is used; then the oldest make room.
void Flight::makeRoom() {
  size_t used = 0;
  for (const auto& track : tracks_) used += track->bytes();
  for (auto track = tracks_.begin(); track != tracks_.end() && used > options_.bytes / 2;) {
    const bool closed = track->use_count() == 1;
    if (closed) used -= (*track)->bytes();
    track = closed ? tracks_.erase(track) : track + 1;
  }
}

Recorder Flight::open(uint64_t id, bool sends, uint64_t peerProcess) {
  const std::lock_guard<std::mutex> lock(mutex_);
  makeRoom();
  return Recorder(tracks_.emplace_back(std::make_shared<Track>(*this, id, sends, peerProcess, share(), kEvents)));
}

size_t Flight::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t sum = processEvents_.bytes();
  for (const auto& track : tracks_) sum += track->bytes();
  return sum;
}

uint16_t Flight::text(const std::string& text) {
  const std::string kept = text.substr(0, kMostTextBytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = std::find(texts_.begin(), texts_.end(), kept);
  if (found == texts_.end()) {
    if (texts_.size() < kMostTexts) texts_.push_back(texts_.size() + 1 < kMostTexts ? kept : "(not kept)");
    found = texts_.end() - 1;
  }
  return static_cast<uint16_t>(found - texts_.begin());
}

void Flight::describe(Track& track, const Route& route) {
  const std::lock_guard<std::mutex> lock(mutex_);
  track.route = route;
}

void Flight::path(size_t nic, size_t peerNic, const std::string& peer, uint8_t state, const std::string& cause) {
  const uint64_t ticks = clock_.now();
  const auto nics = static_cast<uint32_t>(nic << 16 | (peerNic & 0xffff));
  const uint16_t why = text(cause), who = text(peer);
  const std::lock_guard<std::mutex> lock(processMutex_);
  processEvents_.write({ticks, 0, nics, 0, who, RecordKind::Path, state, why});
}

void Flight::nic(size_t nic, bool up, const std::string& cause) {
  const uint64_t ticks = clock_.now();
  const uint16_t why = text(cause);
  const std::lock_guard<std::mutex> lock(processMutex_);
  processEvents_.write(
      {ticks, 0, static_cast<uint32_t>(nic << 16), 0, 0, RecordKind::Nic, static_cast<uint8_t>(up ? 1 : 0), why});
}

// ---- dumps ------------------------------------------------------------------------------------------------------

void Flight::incident(int64_t afterNs) {
  const int64_t due = nowNs() + afterNs;
  int64_t before = due_.load();
  while (due < before && !due_.compare_exchange_weak(before, due)) {
  }
  if (due < before) wake();
}

bool Flight::requested() {
  const int64_t touched = modified(request_);
  if (touched == 0 || touched == requestSeen_) return false;
  requestSeen_ = touched;
  return true;
}

void Flight::loop() {
  int64_t nextPoll = nowNs() + kPollNs, quietUntil = 0;
  while (!stop_) {
    const int64_t now = nowNs();
    if (now >= nextPoll) {
      nextPoll = now + kPollNs;
      clock_.anchor();
      if (requested()) dumpNumbered("request");
    }
    const int64_t due = std::max(due_.load(), quietUntil);
    if (now >= due) {
      due_ = INT64_MAX;
      dumpNumbered("incident");
      quietUntil = nowNs() + kSettleNs;
      continue;
    }
    pollfd fd{wakeFd_.get(), POLLIN, 0};
    const int64_t wait = std::max<int64_t>(std::min(due, nextPoll) - now, 0);
    if (poll(&fd, 1, static_cast<int>(wait / 1000000) + 1) > 0) {
      uint64_t count = 0;
      (void)!::read(wakeFd_.get(), &count, sizeof(count));
    }
  }
  dump("finalize", file_);
}

void Flight::dumpNumbered(const std::string& reason) {
  const int number = std::min(++dumps_, kMostDumps);
  dump(reason, file_ + "." + std::to_string(number));
}

void Flight::dump(const std::string& reason, const std::string& file) {
  const std::string problem = writeWhole(file, content(reason));
  if (problem.empty() || warned_) return;
  warned_ = true;
  options_.warn("R2CC: the flight recorder cannot write " + file + " (R2CC_TRACE_FILE): " + problem +
                "; the job goes on, further failures of this kind are not reported");
}

std::vector<uint8_t> Flight::content(const std::string& reason) {
  std::vector<std::shared_ptr<Track>> tracks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tracks = tracks_;
  }
  std::vector<RecordRing::Snapshot> rings;
  rings.push_back(processEvents_.snapshot());
  for (const auto& track : tracks) {
    rings.push_back(track->messages.snapshot());
    rings.push_back(track->events.snapshot());
  }
  clock_.anchor();
  for (RecordRing::Snapshot& ring : rings) {
    for (Record& record : ring.records) record.ticks = static_cast<uint64_t>(clock_.toNs(record.ticks));
  }
  std::string header;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    header = encodeHeader(reason, options_, texts_, tracks, rings);
  }
  return encodeDump(header, rings);
}

}  // namespace r2cc
