// What a user sets of R2CC that must be alike on all ranks, and the build. It travels in what NCCL's ranks tell each
// other first of all: a rank in another mode would take no part in a gathering of our own, and the others would wait
// for it.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "agree/terms.h"
#include "settings.h"
#include "transport.h"

extern const char r2ccBuildId[];  // src/stamp/build_id.cc

namespace r2cc::schedules {

/// Empty with R2CC_MODE=0.
inline std::string localTerms() {
  const Settings& own = Settings::get();
  if (own.mode == 0) return {};
  agree::Terms terms{{"R2CC_MODE", std::to_string(own.mode)}, {"R2CC's build", r2ccBuildId}};
  if (own.mode >= 3) {
    terms.push_back({"R2CC_SCHEDULE", planner::name(own.schedule)});
    terms.push_back({"R2CC_CHAIN_CHUNK_BYTES", std::to_string(own.leastChunkBytes)});
  }
  return agree::textOf(terms);
}
/// Empty where all are alike, and where all ranks are on one host: nothing of ours is between them.
inline std::string differenceOf(const ncclPeerInfo* peers, int ranks) {
  bool alike = true, oneHost = true;
  for (int rank = 1; rank < ranks; rank++) {
    alike &= memcmp(peers[rank].r2ccTerms, peers[0].r2ccTerms, sizeof(peers[0].r2ccTerms)) == 0;
    oneHost &= peers[rank].hostHash == peers[0].hostHash;
  }
  if (alike || oneHost) return {};
  std::vector<agree::Stated> stated;
  for (int rank = 0; rank < ranks; rank++) {
    const char* terms = peers[rank].r2ccTerms;
    stated.push_back({std::string(terms, strnlen(terms, sizeof(peers[rank].r2ccTerms))), "", 0});
  }
  return agree::difference(stated);
}

}  // namespace r2cc::schedules
