// Every mistake of a request, then all of them at once.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include "planner/planner.h"

namespace r2cc::planner {

class Problems {
 public:
  explicit Problems(std::string hint) : hint_(std::move(hint)) {}
  void add(const std::string& problem) {
    if (++count_ <= kMost) text_ += (text_.empty() ? "" : "\n") + problem;
  }
  /// NaN is in no range.
  void range(double value, double least, double most, const std::string& what) {
    if (value >= least && value <= most) return;
    char text[96];
    std::snprintf(text, sizeof(text), " must be from %.12g to %.12g, not %.12g", least, most, value);
    add(what + text);
  }
  void hint(std::string hint) { hint_ = std::move(hint); }
  /// Throws PlanError if there was one.
  void raise() const {
    if (count_ > kMost) throw PlanError(text_ + "\n... and " + std::to_string(count_ - kMost) + " more", hint_);
    if (count_ > 0) throw PlanError(text_, hint_);
  }

 private:
  static constexpr size_t kMost = 20;
  std::string text_, hint_;
  size_t count_ = 0;
};

}  // namespace r2cc::planner
