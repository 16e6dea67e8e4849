// What a user can set of the schedules; read once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/planner.h"

namespace r2cc::schedules {

struct Settings {
  int mode = 1;                                          // R2CC_MODE
  planner::Schedule schedule = planner::Schedule::Auto;  // R2CC_SCHEDULE
  int64_t holdMs = 60000;                                // R2CC_HOLD_MS
  std::string sideInterface;                             // R2CC_SIDE_IFNAME
  std::string tls, tlsSecretFile;                        // R2CC_TLS, R2CC_TLS_SECRET_FILE
  int leastChunkBytes = 32 << 10;       // R2CC_CHAIN_CHUNK_BYTES: chains hand on at least this, messages allowing
  std::optional<planner::Costs> costs;  // R2CC_COSTS: a file of costs that were measured here
  std::string costsMark = "none";       // of that file, to compare it between ranks
  static const Settings& get();
  /// The address on which this rank's agreement listens and from which it calls: R2CC_SIDE_IFNAME's where that is set,
  /// else the one that NCCL's bootstrap uses. Throws std::runtime_error.
  std::string whereToMeet() const;
};

}  // namespace r2cc::schedules
