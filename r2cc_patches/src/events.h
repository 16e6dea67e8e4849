// The net's own JSON lines (docs/contracts.md): one write(2) a line, so that lines of several writers never mix.
#pragma once

#include <cstdint>
#include <string>

namespace r2cc {

class EventLog {
 public:
  /// An empty path means no events; a file that cannot be opened is reported once on stderr and means the same.
  explicit EventLog(const std::string& path);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;
  bool enabled() const { return fd_ >= 0; }

  /// One line; written when the object dies.
  class Line {
   public:
    Line(const EventLog& log, const char* event);
    ~Line();
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    Line& add(const char* key, int64_t value);
    Line& add(const char* key, const std::string& value);

   private:
    const EventLog& log_;
    std::string text_;
  };
  Line line(const char* event) const { return Line(*this, event); }

 private:
  int fd_ = -1;
};

}  // namespace r2cc
