// Everything a user can set, read once when the engine starts. Nothing else in R2CC reads the environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace r2cc {

/// Modes above this are accepted and run as this: they are refinements of it that a later version brings.
constexpr int kHighestMode = 3;

struct Config {
  int mode = 1;                       // R2CC_MODE: 0 stock, 1 live migration, 2 and balance over all survivors
  int64_t holdNs = 0;                 // R2CC_HOLD_MS: how long a host without any path is waited for
  std::string eventFile;              // R2CC_EVENT_FILE: JSON lines of path and NIC changes are appended here
  std::string sideInterface;          // R2CC_SIDE_IFNAME: one more interface for the side channel, never for data
  std::string lastResort;             // R2CC_LAST_RESORT_IFNAME: sockets over this interface when no other NIC is left
  int64_t probationNs = msToNs(100);  // R2CC_PROBATION_MS: a path that came back is watched this long at first
  bool damping = true;                // R2CC_DAMPING: each failure of the last minute doubles that
  std::string traceFile;        // R2CC_TRACE_FILE: the flight recorder's dumps; a directory, or a name with %h, %p
  size_t traceBytes = 4 << 20;  // R2CC_TRACE_MB: memory of its rings, all connections together
  std::string topologyFile;     // R2CC_TOPO_FILE: places of NICs, where sysfs cannot show them
  std::string assumeDown;       // R2CC_ASSUME_DOWN: NICs that count as failed from the start; see assumed_down.h
  std::string tls;              // R2CC_TLS: "1": what R2CC sends is encrypted; "0" and "": it is not
  std::string tlsSecretFile;    // R2CC_TLS_SECRET_FILE: what only this job's hosts know
  std::string hostId;           // NCCL_HOSTID: what NCCL calls this host, where it is set
  std::string statusDir;        // R2CC_STATUS_DIR: a file in it says how this process is
  std::string controlDir;       // R2CC_CONTROL_DIR: files in it say which NICs are to go away
  std::string job;              // R2CC_JOB, else SLURM_JOB_ID: what the job is called in the status file
  bool quiet = false;           // R2CC_QUIET: no line on stderr at the end
  std::string build;            // of this library; not the environment's
  /// Whether nothing may go unencrypted that can be encrypted; also where R2CC_TLS makes no sense.
  bool mayNotBePlain() const { return !tls.empty() && tls != "0"; }
  static Config fromEnvironment();
};

}  // namespace r2cc
