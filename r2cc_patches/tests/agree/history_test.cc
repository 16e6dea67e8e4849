// Marks: what two ranks however far apart can compare.
#include "agree/history.h"

#include <algorithm>

#include "check.h"

using namespace r2cc::agree;

namespace {

History upTo(uint64_t groups) {
  History history;
  for (uint64_t group = kStride; group <= groups; group += kStride) history.add({group, group / 2, group * 7});
  return history;
}

}  // namespace

TEST(agree_history_of_nothing_is_the_beginning) {
  const std::vector<Mark> marks = History().marks();
  CHECK_EQ(marks.size(), 1U);
  CHECK(marks[0] == Mark());
}

TEST(agree_history_newest_first_and_bounded) {
  const std::vector<Mark> marks = upTo(1000000).marks();
  CHECK(marks.size() <= History::kMarks);
  CHECK_EQ(marks.front().group, 1000000 / kStride * kStride);
  for (size_t i = 1; i < marks.size(); i++) CHECK(marks[i].group < marks[i - 1].group);
}

TEST(agree_history_common_mark_is_near_however_far_apart) {
  for (const uint64_t behind : {0U, 31U, 33U, 64U, 1000U, 4097U, 50000U, 99999U}) {
    const uint64_t slow = 100000 - behind;
    const std::vector<Mark> common = newestCommon({upTo(100000).marks(), upTo(slow).marks()});
    CHECK_EQ(common.size(), 2U);
    CHECK(common[0] == common[1]);
    // At most as far back again as the ranks are apart, rounded up to a step.
    CHECK(common[0].group + 2 * std::max<uint64_t>(behind, kStride) + kStride > slow);
  }
}

TEST(agree_history_a_rank_at_the_start_has_the_start_in_common) {
  const std::vector<Mark> common = newestCommon({upTo(100000).marks(), History().marks()});
  CHECK_EQ(common.size(), 2U);
  CHECK_EQ(common[0].group, 0U);
}

TEST(agree_history_nothing_in_common) {
  CHECK(newestCommon({{{64, 0, 1}}, {{32, 0, 1}}}).empty());
  CHECK(newestCommon({}).empty());
}
