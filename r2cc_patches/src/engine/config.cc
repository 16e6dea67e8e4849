#include "engine/config.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace r2cc {
namespace {

int64_t number(const char* name, int64_t fallback) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const int64_t value = strtoll(text, &end, 10);
  return *end == '\0' && value >= 0 ? value : fallback;
}

/// A time in ms, at most a year: what is meant to last for ever would end at once as a number of ns.
int64_t timeNs(const char* name, int64_t fallbackMs) {
  constexpr int64_t kYearMs = int64_t{365} * 24 * 3600 * 1000;
  return msToNs(std::min(number(name, fallbackMs), kYearMs));
}

std::string text(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

/// The same folder also after the program has gone to another one.
std::string folder(const char* name) {
  std::string given = text(name);
  if (given.empty()) return given;
  std::error_code unknown;
  const std::filesystem::path absolute = std::filesystem::absolute(given, unknown);
  return unknown ? given : absolute.lexically_normal().string();
}

}  // namespace

Config Config::fromEnvironment() {
  Config c;
  c.mode = static_cast<int>(number("R2CC_MODE", 1));
  c.holdNs = timeNs("R2CC_HOLD_MS", 60000);
  c.eventFile = text("R2CC_EVENT_FILE");
  c.sideInterface = text("R2CC_SIDE_IFNAME");
  c.lastResort = text("R2CC_LAST_RESORT_IFNAME");
  c.probationNs = timeNs("R2CC_PROBATION_MS", 100);
  c.damping = number("R2CC_DAMPING", 1) != 0;
  c.traceFile = text("R2CC_TRACE_FILE");
  c.traceBytes = static_cast<size_t>(std::clamp<int64_t>(number("R2CC_TRACE_MB", 4), 1, 1024)) << 20;
  c.topologyFile = text("R2CC_TOPO_FILE");
  c.assumeDown = text("R2CC_ASSUME_DOWN");
  c.tls = text("R2CC_TLS");
  c.tlsSecretFile = text("R2CC_TLS_SECRET_FILE");
  c.hostId = text("NCCL_HOSTID");
  c.statusDir = folder("R2CC_STATUS_DIR");
  c.controlDir = folder("R2CC_CONTROL_DIR");
  c.job = text("R2CC_JOB");
  if (c.job.empty()) c.job = text("SLURM_JOB_ID");
  c.quiet = number("R2CC_QUIET", 0) == 1;
  return c;
}

}  // namespace r2cc
