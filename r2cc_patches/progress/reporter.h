// Writes what the communicators have done as JSON lines (docs/reference/contracts.md), on threads of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "progress/counting/comms.h"
#include "record/events.h"
#include "settings.h"

namespace r2cc::progress {

class Reporter {
 public:
  Reporter(const Settings& settings, Comms& comms);
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  /// False: there is nowhere to write to.
  bool enabled() const { return log_.enabled(); }
  /// A communicator has begun: from now on there is something to look at.
  void wake();
  /// The last lines of a communicator. With the lock of `comms` held.
  void end(Entry& entry);
  /// Waits until all is written, but not for long: whoever reads may have stopped.
  void flush();
  /// What the process has done when it ends without closing its communicators.
  void atProcessEnd();

 private:
  void loop();
  void tick();
  void write(Entry& entry, bool last);
  void begin(Entry& entry);
  void traffic(Entry& entry, const Totals& totals, int64_t now);
  EventLog::Line& name(EventLog::Line& line, const Entry& entry) const;

  const Settings settings_;
  Comms& comms_;
  EventLog log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool awake_ = false;
};

}  // namespace r2cc::progress
