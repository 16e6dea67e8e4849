// Everything a user can set, read once when the engine starts. Nothing else in R2CC reads the environment.
#pragma once

#include <cstdint>
#include <string>

namespace r2cc {

/// Modes above this are accepted and run as this: they are refinements of it that a later version brings.
constexpr int kHighestMode = 1;

struct Config {
  int mode = 1;               // R2CC_MODE: 0 stock, 1 live migration
  int64_t holdNs = 0;         // R2CC_HOLD_MS: how long a host without any path is waited for
  std::string eventFile;      // R2CC_EVENT_FILE: JSON lines of path and NIC changes are appended here
  std::string sideInterface;  // R2CC_SIDE_IFNAME: one more interface for the side channel, never for data
  static Config fromEnvironment();
};

}  // namespace r2cc
