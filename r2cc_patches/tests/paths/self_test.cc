// What a process shows of itself in every header, written by the engine while NCCL's threads send.
#include <atomic>
#include <thread>

#include "check.h"
#include "paths/peer.h"

using namespace r2cc;

// A version that comes with older NICs would be taken for good: the other end asks no second time about a version.
TEST(net_self_no_version_comes_before_its_nics) {
  constexpr uint32_t kChanges = 4'000'000;
  Self self;
  std::atomic<bool> over{false};
  std::thread engine([&] {
    for (uint32_t change = 2; change < kChanges; change++) {
      self.nicsUp = change;
      self.nicsVersion = change;
    }
    over = true;
  });
  int older = 0, seen = 0;
  while (!over || seen == 0) {
    Header header;
    self.show(header);
    older += header.nicsVersion > 1 && header.nicsUp < header.nicsVersion ? 1 : 0;
    seen++;
  }
  engine.join();
  CHECK_EQ(older, 0);
}
