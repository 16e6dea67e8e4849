#include "base/file_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace r2cc {

void raiseFileLimit() {
  constexpr rlim_t kEnough = 65536;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const rlim_t wanted = std::min(files.rlim_max, kEnough);
  if (files.rlim_cur >= wanted) return;
  files.rlim_cur = wanted;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace r2cc
