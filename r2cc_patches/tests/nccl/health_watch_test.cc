// Who watches this host's NICs for all communicators of a process, while these come and go.
#include "health_watch.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "check.h"

using r2cc::schedules::HealthWatch;

namespace {

std::atomic<uint64_t> version{1};

template <typename What>
bool eventually(What what) {
  for (int i = 0; i < 5000 && !what(); i++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return what();
}

}  // namespace

extern "C" uint64_t r2ccHealthVersion() { return version; }

TEST(nccl_health_watch_tells_all_that_are_there) {
  std::atomic<int> told[2] = {{0}, {0}};
  HealthWatch::add(&told[0], [&] { told[0]++; });
  HealthWatch::add(&told[1], [&] { told[1]++; });
  // A change before it first looks is not told: who adds reports by itself then.
  CHECK(eventually([&] { return version++, told[0] > 0 && told[1] > 0; }));
  HealthWatch::remove(&told[0]);
  const int before = told[0], others = told[1];
  CHECK(eventually([&] { return version++, told[1] > others + 1; }));
  CHECK_EQ(told[0].load(), before);
  HealthWatch::remove(&told[1]);
  HealthWatch::remove(&told[1]);  // that it is not there any more is no error
}

/// The last one goes while the next one comes: neither waits for the other's end, and the next one is told.
TEST(nccl_health_watch_the_last_goes_while_the_next_one_comes) {
  constexpr int kEach = 300;
  std::vector<std::thread> threads;
  std::atomic<int> heard{0};
  for (int i = 0; i < 3; i++) {
    threads.emplace_back([&] {
      for (int round = 0; round < kEach; round++) {
        std::atomic<bool> told{false};
        HealthWatch::add(&told, [&] { told = true; });
        if (round % 100 == 99 && eventually([&] { return version++, told.load(); })) heard++;
        HealthWatch::remove(&told);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK_EQ(heard.load(), 3 * kEach / 100);
}
