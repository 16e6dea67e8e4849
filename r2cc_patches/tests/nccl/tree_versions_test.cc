// What the host's part of an operation follows when its channel has another tree by then.
#include "tree_versions.h"

#include "check.h"

using r2cc::schedules::TreeVersions;

TEST(nccl_tree_versions_stay_as_they_were) {
  TreeVersions versions;
  ncclTree tree{4, 1, {2, -1, -1}};
  const ncclTree* const first = versions.of(7, tree);
  CHECK(versions.of(7, tree) == first);
  CHECK(versions.of(8, tree) != first);
  tree.up = 3, tree.down[1] = 5;
  const ncclTree* const second = versions.of(7, tree);
  CHECK(second != first);
  CHECK_EQ(first->up, 1);
  CHECK_EQ(first->down[1], -1);
  CHECK_EQ(second->down[1], 5);
  tree.up = 1, tree.down[1] = -1;
  for (int i = 0; i < 1000; i++) CHECK(versions.of(7, tree) == first);  // there and back for years
}
