#include "history.h"

#include <algorithm>

namespace r2cc::agree {

void History::add(const Mark& mark) {
  const uint64_t step = mark.group / kStride;
  for (size_t level = 0; level < kLevels && step % (uint64_t{1} << level) == 0; level++) {
    levels_[level][(step >> level) & 1] = mark;
  }
}

std::vector<Mark> History::marks() const {
  std::vector<Mark> all;
  for (const auto& level : levels_) all.insert(all.end(), level.begin(), level.end());
  std::sort(all.begin(), all.end(), [](const Mark& a, const Mark& b) { return a.group > b.group; });
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<Mark> newestCommon(const std::vector<std::vector<Mark>>& lists) {
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
