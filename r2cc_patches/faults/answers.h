// What is answered to who wrote a file of rules: lines in a file beside it.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "base/fd.h"

namespace r2cc::faults {

class Answers {
 public:
  explicit Answers(Fd file) : file_(std::move(file)) {}

  /// One write: lines of several processes go to one file.
  void say(const std::string& line) const {
    if (file_.valid()) (void)!::write(file_.get(), line.data(), line.size());
  }
  /// Leaves errno alone: it may be the program's call that hit.
  void hit(const std::string& target, uint64_t count, int64_t atNs) const {
    const int before = errno;
    say("hit " + std::to_string(getpid()) + " " + target + " " + std::to_string(count) + " " + std::to_string(atNs) +
        "\n");
    errno = before;
  }

 private:
  const Fd file_;
};

}  // namespace r2cc::faults
