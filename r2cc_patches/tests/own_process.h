// What this process holds, and how long a thread of it takes, as /proc tells it.
#pragma once

#include <dirent.h>

#include <fstream>
#include <memory>

#include "base/clock.h"

namespace r2cc::check {

/// Of a folder, "." and ".." among them; 0: it cannot be read.
inline int entries(const char* folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder), closedir);
  int count = 0;
  while (open != nullptr && readdir(open.get()) != nullptr) count++;
  return count;
}

inline int descriptors() { return entries("/proc/self/fd"); }
inline int threads() { return entries("/proc/self/task"); }

/// Of this thread, without the time in which it waited for a core, as far as the kernel counts that.
class Took {
 public:
  int64_t ns() const { return nowNs() - began_ - (waited() - waited_); }

 private:
  static int64_t waited() {
    int64_t ran = 0, waited = 0;
    std::ifstream("/proc/thread-self/schedstat") >> ran >> waited;
    return waited;
  }
  const int64_t began_ = nowNs(), waited_ = waited();
};

}  // namespace r2cc::check
