// What must be alike on all ranks before anything runs, by the names that a user knows, and what to say when it is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace r2cc::agree {

struct Term {
  std::string name, value;
};
using Terms = std::vector<Term>;

constexpr size_t kMaxTerms = 2 << 10;  // bytes of a text of them

/// A line each. A value that is too long is cut, and then ends in a hash of all of it; so is the whole.
std::string textOf(const Terms& terms);
/// Of every byte of them.
uint64_t hashOf(const Terms& terms);

/// What a rank says, and who it is: where may be empty.
struct Stated {
  std::string terms, where;
  uint64_t hash = 0;
};
/// Empty if all say the same as rank 0. Otherwise what differs, where, and both values. Texts may hold anything.
std::string difference(const std::vector<Stated>& ranks);

}  // namespace r2cc::agree
