// What the environment says (docs/reference/environment.md).
#pragma once

#include <cstdint>
#include <string>

namespace r2cc::progress {

struct Settings {
  std::string file;      // R2CC_PROGRESS_FILE; empty: nothing is watched
  int64_t periodNs = 0;  // R2CC_PROGRESS_MS
  int worldRank = -1;    // of the whole job, as its launcher names it; -1: no launcher said so
};

/// Reads the environment. A value that is none is reported on stderr, and the default is taken.
Settings readSettings();

}  // namespace r2cc::progress
