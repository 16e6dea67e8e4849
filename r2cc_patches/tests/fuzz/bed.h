// The two hosts of a fuzzed life: their NICs, and which handles the transport takes.
#pragma once

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace r2cc::fuzz {

constexpr int kRails = 2;

inline NicAddress address(int host, int rail) {
  NicAddress nic;
  nic.dev = static_cast<uint8_t>(rail), nic.family = AF_INET, nic.prefix = 24;
  nic.ip = {127, 0, static_cast<uint8_t>(200 + rail), static_cast<uint8_t>(host + 1)};
  nic.port = host == 0 ? 0 : 9;
  return nic;
}

inline std::vector<LocalNic> ourNics() {
  std::vector<LocalNic> out;
  for (int rail = 0; rail < kRails; rail++)
    out.push_back({"lo", 2000000U + static_cast<unsigned>(rail), address(0, rail)});
  return out;
}

/// Handles that the broken peer may pass on: those that a listen of its own wrote. A transport checks them its way.
inline std::vector<InnerHandle>& genuineHandles() {
  static std::vector<InnerHandle> handles;
  return handles;
}
inline std::mutex& handlesMutex() {
  static std::mutex mutex;
  return mutex;
}
inline bool isGenuine(void* handle, uint64_t) {
  const std::lock_guard<std::mutex> lock(handlesMutex());
  const auto same = [&](const InnerHandle& h) { return memcmp(h.data(), handle, h.size()) == 0; };
  return std::any_of(genuineHandles().begin(), genuineHandles().end(), same);
}

}  // namespace r2cc::fuzz
