// Trees that channels had. With CUDA graphs the host's part of an operation may be done long after it was enqueued: it
// needs the tree of then.
#pragma once

#include <algorithm>
#include <list>
#include <map>

#include "device.h"

namespace r2cc::schedules {

class TreeVersions {
 public:
  /// A copy of the tree, for as long as this object lives. There are as many as there are different ones.
  const ncclTree* of(int channel, const ncclTree& tree) {
    std::list<ncclTree>& had = had_[channel];
    const auto same = [&tree](const ncclTree& other) {
      return tree.up == other.up && std::equal(std::begin(tree.down), std::end(tree.down), std::begin(other.down));
    };
    auto found = std::find_if(had.begin(), had.end(), same);
    if (found == had.end()) found = had.insert(had.end(), tree);
    return &*found;
  }

 private:
  std::map<int, std::list<ncclTree>> had_;
};

}  // namespace r2cc::schedules
