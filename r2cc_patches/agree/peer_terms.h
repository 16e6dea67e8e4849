// What ranks tell each other first of all, in an exchange that is not ours and has room for little; and whether they
// can work with each other.
#pragma once

#include <string>
#include <vector>

#include "agree/terms.h"

namespace r2cc::agree {

struct PeerTerms {
  Terms terms;         // what must be alike
  std::string build;   // may differ where the terms do not
  std::string host{};  // NOLINT(readability-redundant-member-init): for who reads that they do not fit
};

/// Three texts, each with its end, in `size` bytes. What does not fit is cut; the rest stays as it is.
void writePeerTerms(const PeerTerms& mine, char* to, size_t size);

struct Compared {
  std::string error;    // what must be alike and is not, where, and both values
  std::string warning;  // what may differ and does
};
/// The same on every rank. `ranks`: what each wrote; it may hold anything.
Compared comparePeerTerms(const std::vector<std::string>& ranks);

}  // namespace r2cc::agree
