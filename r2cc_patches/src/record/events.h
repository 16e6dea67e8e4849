// The net's own JSON lines (docs/reference/contracts.md). They are kept and written a little later, whole lines in one
// write(2), so that lines of several writers never mix and nobody is woken by them in the middle of a failover. A
// thread of its own writes: a pipe may be full.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "record/scribe.h"

namespace r2cc {

class EventLog {
 public:
  /// An empty path means no events; a file that cannot be opened is reported once on stderr and means the same.
  /// `variable` is where the path comes from.
  explicit EventLog(const std::string& path, const char* variable = "R2CC_EVENT_FILE");
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;
  bool enabled() const { return scribe_ != nullptr; }
  /// Has what is older than the delay written. Waits for nothing.
  void flush(int64_t now);
  /// True when all of it is written; false when that takes longer.
  bool flushAll(int64_t limitNs);

  /// One line; kept when the object dies.
  class Line {
   public:
    Line(EventLog& log, const char* event);
    ~Line();
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    Line& add(const char* key, int64_t value);
    Line& add(const char* key, const std::string& value);

   private:
    EventLog& log_;
    std::string text_;
  };
  Line line(const char* event) { return Line(*this, event); }

 private:
  void keep(const std::string& line);
  void handOver();
  std::unique_ptr<Scribe> scribe_;
  Scribe::Write write_;
  std::mutex mutex_;
  std::string kept_;
  int64_t keptSince_ = 0;
};

}  // namespace r2cc
