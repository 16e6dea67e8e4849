// JSON lines on a file descriptor shared with other writers.
//
// The net library writes its own lines to the same pipe or O_APPEND file. A write(2) of at most PIPE_BUF (4096) bytes
// is not torn by another writer's, so each line is one write, and what can be long is split (see report.h).
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "bench/errors.h"

namespace r2cc::bench {

constexpr size_t kMaxLineBytes = 4095;

inline std::string jsonQuote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte >= 0x7F) {  // not ASCII: no promise about the encoding of what others tell us
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", byte);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// One JSON object, built field by field. Values given to raw() must be JSON already.
class JsonObject {
 public:
  JsonObject& integer(std::string_view name, int64_t value) { return raw(name, std::to_string(value)); }
  JsonObject& unsignedInteger(std::string_view name, uint64_t value) { return raw(name, std::to_string(value)); }
  JsonObject& real(std::string_view name, double value) {
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%.6f", value);
    return raw(name, digits);
  }
  JsonObject& text(std::string_view name, std::string_view value) { return raw(name, jsonQuote(value)); }
  JsonObject& raw(std::string_view name, std::string_view json) {
    key(name);
    fields_ += json;
    return *this;
  }
  std::string str() const { return "{" + fields_ + "}"; }

 private:
  void key(std::string_view name) {
    if (!fields_.empty()) fields_ += ',';
    fields_ += '"';
    fields_ += name;
    fields_ += "\":";
  }

  std::string fields_;
};

class LineWriter {
 public:
  explicit LineWriter(int fd) : fd_(fd) {}

  // Adds the newline. Throws TransportError when nobody reads any more (EPIPE): the run then has no purpose.
  void write(std::string line) const {
    line += '\n';
    size_t done = 0;
    while (done < line.size()) {
      const ssize_t n = ::write(fd_, line.data() + done, line.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw TransportError(std::string("cannot write to standard output: ") + std::strerror(errno));
      done += static_cast<size_t>(n);
    }
  }

 private:
  int fd_;
};

}  // namespace r2cc::bench
