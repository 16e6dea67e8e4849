// The flight recorder's file: docs/internals/trace.md describes it. A fixed start, a JSON header that describes
// everything that follows, then records, all little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "record/flight.h"

namespace r2cc {

constexpr char kDumpMagic[] = "R2TRACE\n";  // 8 bytes without the final zero
constexpr uint32_t kDumpVersion = 1;

/// R2CC_TRACE_FILE with its host and process filled in.
std::string dumpName(const std::string& pattern);
/// Who touches this file gets a dump of every process that watches it.
std::string requestName(const std::string& pattern);

/// Describes rings: the process's events first, then each track's messages and events. With Flight's mutex held.
std::string encodeHeader(const std::string& reason, const FlightOptions& options, const std::vector<std::string>& texts,
                         const std::vector<std::shared_ptr<Track>>& tracks,
                         const std::vector<RecordRing::Snapshot>& rings);
std::vector<uint8_t> encodeDump(const std::string& header, const std::vector<RecordRing::Snapshot>& rings);

/// Writes the file beside its place and moves it there, so that a reader never sees half of one. Empty, or why not.
std::string writeWhole(const std::string& file, const std::vector<uint8_t>& content);

}  // namespace r2cc
