#include "settings.h"

#include <cstdlib>

#include "debug.h"
#include "engine/config.h"

namespace r2cc::schedules {
namespace {

constexpr long kFewestBytes = 4 << 10, kMostBytes = 4 << 20;

planner::Schedule scheduleOf(const char* text) {
  using planner::Schedule;
  if (text == nullptr || *text == '\0') return Schedule::Auto;
  for (const Schedule known : {Schedule::Auto, Schedule::Ring, Schedule::Chain}) {
    if (std::string(text) == planner::name(known)) return known;
  }
  WARN("R2CC: R2CC_SCHEDULE=%s is not one of auto, ring, chain; running auto", text);
  return Schedule::Auto;
}

Settings read() {
  const Config config = Config::fromEnvironment();
  Settings s;
  s.mode = config.mode;
  s.holdMs = config.holdNs / 1'000'000;
  s.sideInterface = config.sideInterface;
  s.schedule = scheduleOf(std::getenv("R2CC_SCHEDULE"));
  const char* chunk = std::getenv("R2CC_CHAIN_CHUNK_BYTES");
  if (chunk == nullptr) return s;
  const long bytes = std::strtol(chunk, nullptr, 10);
  if (bytes >= kFewestBytes && bytes <= kMostBytes)
    s.leastChunkBytes = static_cast<int>(bytes);
  else
    WARN("R2CC: R2CC_CHAIN_CHUNK_BYTES=%s is not from %ld to %ld; running %d", chunk, kFewestBytes, kMostBytes,
         s.leastChunkBytes);
  return s;
}

}  // namespace

const Settings& Settings::get() {
  static const Settings& the = *new Settings(read());  // never destroyed: background threads may outlive main()
  return the;
}

}  // namespace r2cc::schedules
