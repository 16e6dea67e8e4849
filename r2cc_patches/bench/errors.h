// The failures a run can end with, one type per exit code (docs/reference/contracts.md, "r2cc_bench").
#pragma once

#include <stdexcept>
#include <string>

namespace r2cc::bench {

enum ExitCode : int { kExitExact = 0, kExitWrong = 1, kExitUsage = 2, kExitTransport = 3 };

// The command line cannot be run as written; nothing was started.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The transport, the bootstrap or a peer failed. peer and connection are -1 when they are not known.
class TransportError : public std::runtime_error {
 public:
  explicit TransportError(const std::string& message, int peer = -1, int connection = -1)
      : std::runtime_error(message), peer_(peer), connection_(connection) {}

  int peer() const { return peer_; }
  int connection() const { return connection_; }

 private:
  int peer_;
  int connection_;
};

}  // namespace r2cc::bench
