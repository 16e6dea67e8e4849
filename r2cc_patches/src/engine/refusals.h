// Connects that cannot be: the listening end is told for a while, then NCCL is. Under the engine's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "paths/shared.h"
#include "wire/party.h"

namespace r2cc {

class Refusals {
 public:
  Refusals(Shared& shared, int mode);

  /// What this process is.
  const Party& here() const { return here_; }
  /// Asked at every connect. ncclSuccess: it may go on. ncclInProgress: it cannot, and the other end is being told.
  /// Else NCCL's error.
  ncclResult_t check(const ConnectHandle& to, uint8_t version);
  /// Another end refused one of our listens, for this reason.
  void heard(const std::string& why);

 private:
  struct Told {
    int64_t since = 0, next = 0;
  };
  void tell(const ConnectHandle& to, const std::string& why) const;
  Shared& shared_;
  const Party here_;
  std::map<std::pair<uint64_t, uint64_t>, Told> told_;  // by process and listen
  bool saidWhy_ = false, saidDifference_ = false, saidHeard_ = false;
};

}  // namespace r2cc
