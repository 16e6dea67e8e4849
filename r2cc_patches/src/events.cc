#include "events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "clock.h"

namespace r2cc {
namespace {

void appendString(std::string& out, const std::string& value) {
  out += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

EventLog::EventLog(const std::string& path) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fprintf(stderr, "r2cc: R2CC_EVENT_FILE=%s: %s; no events are written\n", path.c_str(), strerror(errno));
}

EventLog::~EventLog() {
  if (fd_ >= 0) close(fd_);
}

EventLog::Line::Line(const EventLog& log, const char* event) : log_(log) {
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
  appendString(text_, value);
  return *this;
}

EventLog::Line::~Line() {
  if (!log_.enabled()) return;
  text_ += "}\n";
  // A reader that is gone or slow must never hold up the network: a short or failed write loses this line only.
  (void)!write(log_.fd_, text_.data(), text_.size());
}

}  // namespace r2cc
