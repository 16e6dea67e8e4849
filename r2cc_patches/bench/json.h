// JSON lines on a file descriptor shared with other writers.
//
// The net library writes its own lines to the same pipe or O_APPEND file. A write(2) of at most PIPE_BUF (4096) bytes
// is not torn by another writer's, so each line is one write, and what can be long is split (see report.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace r2cc::bench {

constexpr size_t kMaxLineBytes = 4095;

// One JSON object, built field by field. Values given to raw() must be JSON already.
class JsonObject {
 public:
  JsonObject& integer(std::string_view name, int64_t value);
  JsonObject& unsignedInteger(std::string_view name, uint64_t value);
  JsonObject& real(std::string_view name, double value);
  JsonObject& text(std::string_view name, std::string_view value);
  JsonObject& raw(std::string_view name, std::string_view json);
  std::string str() const { return "{" + fields_ + "}"; }

 private:
  void key(std::string_view name);

  std::string fields_;
};

std::string jsonQuote(std::string_view text);

class LineWriter {
 public:
  explicit LineWriter(int fd) : fd_(fd) {}

  // Adds the newline. Throws TransportError when nobody reads any more (EPIPE): the run then has no purpose.
  void write(std::string line) const;

 private:
  int fd_;
};

}  // namespace r2cc::bench
