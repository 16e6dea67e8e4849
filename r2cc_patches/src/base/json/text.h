// JSON as text.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

namespace r2cc {

inline void appendJson(std::string& out, const std::string& value) {
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

/// A number that may need more than the 53 bits that readers of JSON have for one.
inline std::string hex(uint64_t value) {
  char text[17];
  snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// Commas between members and items are its business.
class JsonWriter {
 public:
  JsonWriter& open(char bracket) { return item(), out_ += bracket, first_ = true, *this; }
  JsonWriter& close(char bracket) { return out_ += bracket, first_ = false, *this; }
  JsonWriter& key(const std::string& key) { return text(key), out_ += ':', first_ = true, *this; }
  JsonWriter& text(const std::string& value) { return item(), appendJson(out_, value), *this; }
  JsonWriter& word(const char* value) { return item(), out_ += value, *this; }
  JsonWriter& boolean(bool value) { return word(value ? "true" : "false"); }
  /// The shortest text that reads back as the same number; null for what is none.
  template <typename Number>
  JsonWriter& number(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      if (!std::isfinite(value)) return word("null");
    }
    item();
    std::array<char, 32> digits{};
    return out_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr), *this;
  }
  template <typename Number>
  JsonWriter& numbers(const std::vector<Number>& values) {
    open('[');
    for (const Number value : values) number(value);
    return close(']');
  }
  template <typename Number>
  JsonWriter& rows(const std::vector<std::vector<Number>>& rows) {
    open('[');
    for (const std::vector<Number>& row : rows) numbers(row);
    return close(']');
  }
  JsonWriter& texts(const std::vector<std::string>& values) {
    open('[');
    for (const std::string& value : values) text(value);
    return close(']');
  }
  const std::string& out() const { return out_; }

 private:
  void item() {
    if (!first_) out_ += ',';
    first_ = false;
  }
  std::string out_;
  bool first_ = true;
};

}  // namespace r2cc
