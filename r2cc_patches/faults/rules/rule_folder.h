// The folder by which the toolkit and this process talk: a rule file for each fault, and answers beside it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <string>

#include "base/fd.h"

namespace r2cc::faults {

/// Tells a file from one that took its place.
struct Stamp {
  uint64_t inode = 0, size = 0;
  int64_t changedNs = 0;
  bool operator==(const Stamp& other) const {
    return inode == other.inode && size == other.size && changedNs == other.changedNs;
  }
};

class RuleFolder {
 public:
  explicit RuleFolder(std::string path) : path_(std::move(path)) {}

  /// Rule files by name. A folder that is not there is empty.
  std::map<std::string, Stamp> files() const;

  /// Throws BadRules for a file that somebody else could have written.
  std::string read(const std::string& name) const;

  /// Where answers to this file go. Not valid: it is gone, or nothing can be written there.
  Fd answers(const std::string& name) const;

  std::string pathOf(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace r2cc::faults
