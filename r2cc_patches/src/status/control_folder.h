// Which NICs of this host are to go away, as files in a folder say (R2CC_CONTROL_DIR): written by `r2cc drain`, removed
// by `r2cc undrain`. Only files of this process's user or of root count, and only where nobody else may write to them:
// no port is opened for this, and nothing is taken from the network. Used by one thread, which may wait for the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace r2cc {

class ControlFolder {
 public:
  using Say = std::function<void(const std::string&)>;
  /// `hosts`: the names of this host. `nics`: the names of each NIC, by index. `warn`: once for each file that cannot
  /// be used, and for the folder.
  ControlFolder(std::string folder, std::vector<std::string> hosts, std::vector<std::vector<std::string>> nics,
                Say warn);
  /// A bit for each NIC. A folder that is not there asks for nothing. One that cannot be read now asks for what it
  /// asked for before: NICs must not be used again just because a disk does not answer.
  uint32_t read();

 private:
  std::optional<uint32_t> readAll();
  std::optional<uint32_t> readFile(int folder, const std::string& name);
  bool ours(int folder);
  uint32_t asksFor(const std::string& text) const;
  void say(const std::string& file, const std::string& what);
  const std::string folder_;
  const std::vector<std::string> hosts_;
  const std::vector<std::vector<std::string>> nics_;
  const Say warn_;
  std::set<std::string> said_;
  uint32_t last_ = 0;
};

}  // namespace r2cc
