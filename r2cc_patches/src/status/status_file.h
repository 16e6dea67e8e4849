// The file in which a process says how it is (R2CC_STATUS_DIR): written beside it and renamed, so that whoever reads it
// reads a whole one. Used by one thread, which may wait for the disk.
#pragma once

#include <functional>
#include <string>

namespace r2cc {

class StatusFile {
 public:
  using Say = std::function<void(const std::string&)>;
  /// `name`: without its ending. The folder is made where only itself is missing. `warn` is called for the first error;
  /// later ones change nothing, and the file is tried again each time.
  StatusFile(std::string folder, const std::string& name, Say warn);
  void write(const std::string& text);
  void remove() const;

 private:
  bool tryWrite(const std::string& text) const;
  const std::string folder_, path_, aside_;
  const Say warn_;
  bool said_ = false;
};

}  // namespace r2cc
