#include "json.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "errors.h"

namespace r2cc::bench {

std::string jsonQuote(std::string_view text) {
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

void JsonObject::key(std::string_view name) {
  if (!fields_.empty()) fields_ += ',';
  fields_ += '"';
  fields_ += name;
  fields_ += "\":";
}

JsonObject& JsonObject::integer(std::string_view name, int64_t value) { return raw(name, std::to_string(value)); }

JsonObject& JsonObject::unsignedInteger(std::string_view name, uint64_t value) {
  return raw(name, std::to_string(value));
}

JsonObject& JsonObject::real(std::string_view name, double value) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.6f", value);
  return raw(name, digits);
}

JsonObject& JsonObject::text(std::string_view name, std::string_view value) { return raw(name, jsonQuote(value)); }

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  key(name);
  fields_ += json;
  return *this;
}

void LineWriter::write(std::string line) const {
  line += '\n';
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw TransportError(std::string("cannot write to standard output: ") + std::strerror(errno));
    done += static_cast<size_t>(n);
  }
}

}  // namespace r2cc::bench
