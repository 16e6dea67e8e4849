// What this process holds, counted in /proc.
#pragma once

#include <dirent.h>

#include <memory>

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

}  // namespace r2cc::check
