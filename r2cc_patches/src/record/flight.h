// The flight recorder of the process: gives connections their rings, and writes dumps. It has a thread of its own,
// because a slow disk must not hold up the engine: dumps are written when a connection recovered or failed, when the
// request file is touched, and at the end. Nothing of it exists unless R2CC_TRACE_FILE is set.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "record/recorder.h"

namespace r2cc {

struct FlightOptions {
  std::string file;  // a directory, or a name in which %h is the host's, %p the process's, %% a percent sign
  size_t bytes = 4 << 20;
  uint64_t process = 0;  // this process as its peers know it
  int mode = 0;
  std::vector<std::string> nics;  // in the order of the engine's
  std::function<void(const std::string&)> warn;
};

class Flight {
 public:
  explicit Flight(FlightOptions options);
  /// Writes the last dump, `finalize`, and waits for it.
  ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  Recorder open(uint64_t id, bool sends, uint64_t peerProcess);
  const TickClock& clock() const { return clock_; }
  /// The index of a text that dumps carry; few and short ones are kept, the rest share one index.
  uint16_t text(const std::string& text);
  void describe(Track& track, const Route& route);

  // What concerns no connection in particular. Any thread.
  void path(size_t nic, size_t peerNic, const std::string& peer, uint8_t state, const std::string& cause);
  void nic(size_t nic, bool up, const std::string& cause);

  /// Something worth keeping has happened: a dump is written `afterNs` from now, so that what follows is in it too.
  void incident(int64_t afterNs);

  /// Everything there is, as a file's content (docs/internals/trace.md).
  std::vector<uint8_t> content(const std::string& reason);
  /// The name of the last dump; those of incidents and requests have a number behind it.
  const std::string& file() const { return file_; }
  const std::string& requestFile() const { return request_; }
  /// Memory of all rings, those of closed connections included.
  size_t bytes() const;

 private:
  void loop();
  bool requested();
  void dump(const std::string& reason, const std::string& file);
  void dumpNumbered(const std::string& reason);
  void wake();
  size_t share() const;
  void makeRoom();

  const FlightOptions options_;
  const std::string file_, request_;
  TickClock clock_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Track>> tracks_;
  std::vector<std::string> texts_{""};
  std::mutex processMutex_;
  RecordRing processEvents_;
  std::atomic<int64_t> due_{INT64_MAX};
  std::atomic<bool> stop_{false};
  std::atomic<int> dumps_{0};
  int64_t requestSeen_ = 0;
  bool warned_ = false;
  const Fd wakeFd_;
  std::thread thread_;
};

}  // namespace r2cc
