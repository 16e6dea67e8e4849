// What a rank enqueued, in a form that two ranks at different places can compare: hashes at marks. Marks are thinned
// out with age, so that ranks however far apart have one in common, the nearer the closer they are.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace r2cc::agree {

constexpr uint64_t kStride = 32;  // groups between two marks

struct Mark {
  uint64_t group = 0;
  uint64_t captures = 0;  // groups captured before this one
  uint64_t hash = 0;
  auto fields() { return inOrder(group, captures, hash); }
  bool operator==(const Mark& o) const { return group == o.group && captures == o.captures && hash == o.hash; }
};

/// Level l keeps the newest two marks at multiples of kStride << l. With ranks s groups apart, the level of at least s
/// has a mark in common: at most two of its steps back. Level 0 of an empty history is the beginning, which all share.
class History {
 public:
  static constexpr size_t kLevels = 40;
  static constexpr size_t kMarks = 2 * kLevels;

  /// `mark.group` is a multiple of kStride, ascending.
  void add(const Mark& mark) {
    const uint64_t step = mark.group / kStride;
    for (size_t level = 0; level < kLevels && step % (uint64_t{1} << level) == 0; level++) {
      levels_[level][(step >> level) & 1] = mark;
    }
  }
  /// Newest first, each group once.
  std::vector<Mark> marks() const {
    std::vector<Mark> all;
    for (const auto& level : levels_) all.insert(all.end(), level.begin(), level.end());
    std::sort(all.begin(), all.end(), [](const Mark& a, const Mark& b) { return a.group > b.group; });
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

 private:
  std::array<std::array<Mark, 2>, kLevels> levels_{};
};

/// The newest mark that is in all of the lists, as each has it; empty when there is none.
inline std::vector<Mark> newestCommon(const std::vector<std::vector<Mark>>& lists) {
  if (lists.empty()) return {};
  for (const Mark& candidate : lists.front()) {
    std::vector<Mark> found;
    for (const auto& list : lists) {
      const auto at =
          std::find_if(list.begin(), list.end(), [&](const Mark& mark) { return mark.group == candidate.group; });
      if (at == list.end()) break;
      found.push_back(*at);
    }
    if (found.size() == lists.size()) return found;
  }
  return {};
}

}  // namespace r2cc::agree
