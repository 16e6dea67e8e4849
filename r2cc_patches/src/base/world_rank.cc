#include "base/world_rank.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <initializer_list>

namespace r2cc {
namespace {

bool isRank(const char* text, int& rank) {
  char* end = nullptr;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < 0 || value > INT_MAX) return false;
  rank = static_cast<int>(value);
  return true;
}

}  // namespace

int worldRank() {
  int rank = -1;
  for (const char* name : {"R2CC_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"}) {
    const char* text = getenv(name);
    if (text != nullptr && isRank(text, rank)) return rank;
  }
  return -1;
}

}  // namespace r2cc
