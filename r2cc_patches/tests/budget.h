// How much of a long test is run. Under a sanitizer, which makes it ten times slower, `.ci/run` runs a part;
// `make nightly` sets R2CC_TESTS=whole, and then it is all of it everywhere.
#pragma once

#include <cstdlib>
#include <cstring>

namespace r2cc::check {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr int kSlowness = kSanitized ? 4 : 1;

template <class T>
T much(T whole, T part) {
  const char* chosen = std::getenv("R2CC_TESTS");
  return kSanitized && (chosen == nullptr || std::strcmp(chosen, "whole") != 0) ? part : whole;
}

}  // namespace r2cc::check
