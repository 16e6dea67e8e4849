// Says in each subnet where our NICs are: where several share one, neighbours may have learned the wrong one's address.
#pragma once

#include <vector>

#include "lanes/lane.h"
#include "paths/shared.h"

namespace r2cc {

class Announcer {
 public:
  explicit Announcer(Shared& shared) : shared_(shared), astray_(shared.nics.size()) {}
  /// Something changed: it is said for some seconds.
  void begin();
  /// A lane could not be kept on its NIC: neighbours are told where that is. `forGood`: that did not help either.
  void onMisplaced(const Lane& lane, bool forGood);
  void tick(int64_t now);

 private:
  bool sharesSubnet(size_t nic) const;
  Shared& shared_;
  std::vector<bool> astray_;  // by NIC: said in NCCL's log
  int64_t until_ = 0, next_ = 0;
};

}  // namespace r2cc
