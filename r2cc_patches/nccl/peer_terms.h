// What a user sets of R2CC that must be alike on all ranks, R2CC's protocol, and the build. It travels in what NCCL's
// ranks tell each other first of all: a rank in another mode would take no part in a gathering of our own, and the
// others would wait for it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "agree/peer_terms.h"
#include "record/r2cc_health.h"
#include "settings.h"
#include "transport.h"
#include "wire/party.h"

extern const char r2ccBuildId[];  // src/stamp/build_id.cc

namespace r2cc::schedules {

/// Builds may differ where they speak the same protocol, but not under schedules: every rank makes the plan itself.
inline agree::PeerTerms localTerms() {
  const Settings& own = Settings::get();
  agree::PeerTerms out{{{"R2CC_MODE", std::to_string(own.mode)}, {"R2CC's protocol", std::to_string(kWireVersion)}},
                       r2ccBuildId,
                       ownParty(own.mode, Inner::Unknown).where};
  if (own.mode >= 3) {
    out.terms.push_back({"R2CC's build", r2ccBuildId});
    out.terms.push_back({"R2CC_SCHEDULE", planner::name(own.schedule)});
    out.terms.push_back({"R2CC_CHAIN_CHUNK_BYTES", std::to_string(own.leastChunkBytes)});
    out.terms.push_back({"R2CC_COSTS", own.costsMark});
  }
  return out;
}
/// What a rank writes: the terms, and how much its host's NICs have left, which need not be alike.
constexpr size_t kTermsBytes = sizeof(ncclPeerInfo::r2ccTerms) - sizeof(float);

/// Of all NICs together, 0 to 1, in steps that noise does not change; 1: not known.
inline float leftNow() {
  constexpr int kMostNics = 64, kSteps = 16;
  R2ccNicHealth nics[kMostNics];
  const int count = std::min(r2ccHealth(nics, kMostNics), kMostNics);
  double whole = 0, left = 0;
  for (int i = 0; i < count; i++) {
    const double rate = nics[i].rate_gbit > 0 ? nics[i].rate_gbit : 1;
    whole += rate;
    left += rate * nics[i].capacity;
  }
  return whole > 0 ? static_cast<float>(std::round(left / whole * kSteps) / kSteps) : 1;
}
inline double leftOf(const ncclPeerInfo& peer) {
  float left = 1;
  memcpy(&left, peer.r2ccTerms + kTermsBytes, sizeof(left));
  return left;
}

/// Empty where all ranks are on one host: nothing of ours is between them.
inline agree::Compared compared(const ncclPeerInfo* peers, int ranks) {
  bool alike = true, oneHost = true;
  for (int rank = 1; rank < ranks; rank++) {
    alike &= memcmp(peers[rank].r2ccTerms, peers[0].r2ccTerms, kTermsBytes) == 0;
    oneHost &= peers[rank].hostHash == peers[0].hostHash;
  }
  if (alike || oneHost) return {};
  std::vector<std::string> written;
  written.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; rank++) {
    written.emplace_back(peers[rank].r2ccTerms, kTermsBytes);
  }
  return agree::comparePeerTerms(written);
}

}  // namespace r2cc::schedules
