// Reads the lines that the library has written.
#pragma once

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace r2cc::play {

struct Line {
  std::string text;
  bool is(const std::string& event) const { return has("\"event\":\"" + event + "\""); }
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
  /// -1 when there is no such field.
  long long number(const std::string& key) const {
    const size_t at = text.find("\"" + key + "\":");
    return at == std::string::npos ? -1 : std::strtoll(text.c_str() + at + key.size() + 3, nullptr, 10);
  }
};

inline std::vector<Line> linesOf(const std::string& file) {
  std::vector<Line> lines;
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);) lines.push_back({text});
  return lines;
}

inline std::vector<Line> linesOf(const std::string& file, const std::string& event, const std::string& part = "") {
  std::vector<Line> lines;
  for (const Line& line : linesOf(file)) {
    if (line.is(event) && line.has(part)) lines.push_back(line);
  }
  return lines;
}

template <typename Holds>
bool within(int limitMs, const Holds& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limitMs);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace r2cc::play
