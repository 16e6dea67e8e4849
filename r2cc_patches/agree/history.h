// What a rank enqueued, in a form that two ranks at different places can compare: hashes at marks. Marks are thinned
// out with age, so that ranks however far apart have one in common, the nearer the closer they are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace r2cc::agree {

constexpr uint64_t kStride = 32;  // groups between two marks

struct Mark {
  uint64_t group = 0;
  uint64_t captures = 0;  // groups captured before this one
  uint64_t hash = 0;
  template <class A>
  void visit(A& a) {
    a(group), a(captures), a(hash);
  }
  bool operator==(const Mark& o) const { return group == o.group && captures == o.captures && hash == o.hash; }
};

/// Level l keeps the newest two marks at multiples of kStride << l. With ranks s groups apart, the level of at least s
/// has a mark in common: at most two of its steps back. Level 0 of an empty history is the beginning, which all share.
class History {
 public:
  static constexpr size_t kLevels = 40;
  static constexpr size_t kMarks = 2 * kLevels;

  /// `mark.group` is a multiple of kStride, ascending.
  void add(const Mark& mark);
  /// Newest first, each group once.
  std::vector<Mark> marks() const;

 private:
  std::array<std::array<Mark, 2>, kLevels> levels_{};
};

/// The newest mark that is in all of the lists, as each has it; empty when there is none.
std::vector<Mark> newestCommon(const std::vector<std::vector<Mark>>& lists);

}  // namespace r2cc::agree
