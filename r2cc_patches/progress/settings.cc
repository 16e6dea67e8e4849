#include "settings.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/clock.h"
#include "base/world_rank.h"

namespace r2cc::progress {
namespace {

constexpr long kDefaultMs = 20, kMostMs = 60000;

std::optional<long> number(const char* text, long least, long most) {
  char* end = nullptr;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < least || value > most) return std::nullopt;
  return value;
}

long period() {
  const char* text = getenv("R2CC_PROGRESS_MS");
  if (text == nullptr) return kDefaultMs;
  if (const auto value = number(text, 1, kMostMs)) return *value;
  fprintf(stderr, "r2cc: R2CC_PROGRESS_MS=%s: not a whole number from 1 to %ld; %ld is taken\n", text, kMostMs,
          kDefaultMs);
  return kDefaultMs;
}

}  // namespace

Settings readSettings() {
  const char* file = getenv("R2CC_PROGRESS_FILE");
  return {file == nullptr ? "/proc/self/fd/1" : file, msToNs(period()), worldRank()};
}

}  // namespace r2cc::progress
