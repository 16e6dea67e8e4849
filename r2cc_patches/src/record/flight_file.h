// The flight recorder's file: docs/internals/trace.md describes it. A fixed start, a JSON header that describes
// everything that follows, then records, all little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/recorder.h"

namespace r2cc {

constexpr char kDumpMagic[] = "R2TRACE\n";  // 8 bytes without the final zero
constexpr uint32_t kDumpVersion = 1;

/// R2CC_TRACE_FILE with its host and process filled in.
std::string dumpName(const std::string& pattern);
/// Who touches this file gets a dump of every process that watches it.
std::string requestName(const std::string& pattern);

class HeaderWriter {
 public:
  HeaderWriter(const std::string& reason, uint64_t process, int mode);
  void list(const char* key, const std::vector<std::string>& values);
  void ring(const char* key, const RecordRing::Snapshot& snapshot);
  void track(const Track& track, const RecordRing::Snapshot& messages, const RecordRing::Snapshot& events);
  std::string finish();

 private:
  void key(const char* key);
  std::string text_, tracks_;
  uint64_t records_ = 0;  // described so far: a ring's `at`
};

std::vector<uint8_t> encodeDump(const std::string& header, const std::vector<RecordRing::Snapshot>& rings);

/// Writes the file beside its place and moves it there, so that a reader never sees half of one. Empty, or why not.
std::string writeWhole(const std::string& file, const std::vector<uint8_t>& content);

}  // namespace r2cc
