#include "peer_terms.h"

#include <cstring>
#include <vector>

#include "../agree/terms.h"
#include "settings.h"

extern const char r2ccBuildId[];  // src/stamp/build_id.cc

namespace r2cc::schedules {

std::string localTerms() {
  const Settings& own = Settings::get();
  if (own.mode == 0) return {};
  agree::Terms terms{{"R2CC_MODE", std::to_string(own.mode)}, {"R2CC's build", r2ccBuildId}};
  if (own.mode >= 3) {
    terms.push_back({"R2CC_SCHEDULE", planner::name(own.schedule)});
    terms.push_back({"R2CC_CHAIN_CHUNK_BYTES", std::to_string(own.leastChunkBytes)});
  }
  return agree::textOf(terms);
}

std::string differenceOf(const ncclPeerInfo* peers, int ranks) {
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
