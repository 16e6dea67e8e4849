#include "record/events.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json/text.h"

namespace r2cc {
namespace {

constexpr int64_t kDelayNs = msToNs(50);
constexpr size_t kMostBytes = 4000;  // what the kernel writes to a pipe in one piece (PIPE_BUF is 4096)

std::string missing(uint64_t lines) {
  return "{\"t_ns\":" + std::to_string(nowNs()) + ",\"event\":\"missing\",\"lines\":" + std::to_string(lines) + "}\n";
}

/// A descriptor of this process is duplicated where it is no pipe: a socket cannot be opened by its path, and of a file
/// that the program writes too both must know where the other stopped.
int openForLines(const std::string& path) {
  static const std::string ours = "/proc/self/fd/";
  struct stat kind{};
  char* end = nullptr;
  const bool isOurs = path.compare(0, ours.size(), ours) == 0 && path.size() > ours.size();
  const long number = isOurs ? strtol(path.c_str() + ours.size(), &end, 10) : -1;
  if (isOurs && *end == '\0' && fstat(static_cast<int>(number), &kind) == 0 && !S_ISFIFO(kind.st_mode)) {
    return fcntl(static_cast<int>(number), F_DUPFD_CLOEXEC, 0);
  }
  return open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

}  // namespace

EventLog::EventLog(const std::string& path, const char* variable) {
  if (path.empty()) return;
  const auto file = std::make_shared<Fd>(openForLines(path));
  if (!file->valid()) {
    fprintf(stderr, "r2cc: %s=%s: %s; no events are written\n", variable, path.c_str(), strerror(errno));
    return;
  }
  scribe_ = std::make_unique<Scribe>("r2cc-events", missing);
  // A short or failed write loses these lines only.
  write_ =
      scribe_->through([file](const std::string& lines) { (void)!write(file->get(), lines.data(), lines.size()); });
}

EventLog::~EventLog() { handOver(); }

EventLog::Line::Line(EventLog& log, const char* event) : log_(log) {
  if (!log_.enabled()) return;
  text_ = "{\"t_ns\":" + std::to_string(nowNs()) + ",\"event\":\"" + event + "\"";
}

EventLog::Line& EventLog::Line::add(const char* key, int64_t value) {
  if (log_.enabled()) text_ += std::string(",\"") + key + "\":" + std::to_string(value);
  return *this;
}

EventLog::Line& EventLog::Line::add(const char* key, const std::string& value) {
  if (!log_.enabled()) return *this;
  text_ += std::string(",\"") + key + "\":";
  appendJson(text_, value);
  return *this;
}

EventLog::Line::~Line() {
  if (log_.enabled()) log_.keep(text_ + "}\n");
}

void EventLog::keep(const std::string& line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (kept_.empty()) keptSince_ = nowNs();
  kept_ += line;
}

void EventLog::flush(int64_t now) {
  bool due = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    due = !kept_.empty() && now - keptSince_ >= kDelayNs;
  }
  if (due) handOver();
}

bool EventLog::flushAll(int64_t limitNs) {
  if (!enabled()) return true;
  handOver();
  return scribe_->flush(limitNs);
}

void EventLog::handOver() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t at = 0; at < kept_.size();) {
    size_t end = kept_.size();
    if (end - at > kMostBytes) end = kept_.rfind('\n', at + kMostBytes) + 1;
    if (end <= at) end = kept_.find('\n', at) + 1;  // one line longer than that
    write_(kept_.substr(at, end - at));
    at = end;
  }
  kept_.clear();
}

}  // namespace r2cc
