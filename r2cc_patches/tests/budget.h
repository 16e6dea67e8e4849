// How much of a long test is run. Under a sanitizer, which makes it ten times slower, `.ci/run` runs a part;
// `make nightly` sets R2CC_TESTS=whole, and then it is all of it everywhere.
#pragma once

#include <cstdlib>
#include <cstring>

#include "check.h"

namespace r2cc::check {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Whether a sanitizer watches. A test that asks does less or holds to less there, and counts as run in part.
inline bool sanitized() {
  if (kSanitized) Suite::instance().inPart();
  return kSanitized;
}

/// How many times longer things may take.
inline int slowness() { return sanitized() ? 4 : 1; }

/// How much of it: `part` under a sanitizer, which then counts as run in part.
template <class T>
T much(T whole, T part) {
  const char* chosen = std::getenv("R2CC_TESTS");
  const bool all = chosen != nullptr && std::strcmp(chosen, "whole") == 0;
  return !all && sanitized() ? part : whole;
}

}  // namespace r2cc::check
