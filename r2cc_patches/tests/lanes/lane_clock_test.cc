// What a lane shows of itself while its messages take longer than the engine's looks, as those of a slow RDMA NIC do.
#include "lanes/lane_clock.h"

#include <cmath>

#include "check.h"
#include "paths/capacity.h"

using namespace r2cc;

namespace {

constexpr size_t kMessage = 16384;

/// A lane with always another message under way, each over so long after the one before.
struct Sender {
  LaneClock clock;
  LaneSample seen{};
  int64_t next = 0;
  void until(int64_t now, int64_t eachNs) {
    if (next == 0) clock.begin(now), next = now + eachNs;
    for (; next <= now; next += eachNs) clock.carried(kMessage, next, true);
  }
};

struct Net {
  std::vector<std::unique_ptr<Path>> paths;
  std::vector<std::array<Sender, 2>> senders;
  Capacities capacities;
  int64_t now = msToNs(1000);
  explicit Net(int count) : senders(static_cast<size_t>(count)) {
    for (int i = 0; i < count; i++) {
      paths.push_back(std::make_unique<Path>(static_cast<uint8_t>(i), static_cast<uint8_t>(i), PathUse::Data));
    }
    (void)capacities.close(paths, now);
  }
  /// One window: what a message of each path's lanes takes.
  size_t window(const std::vector<double>& eachMs) {
    now += kWindowNs;
    for (size_t i = 0; i < paths.size(); i++) {
      for (Sender& sender : senders[i]) {
        // The second lane's messages end between those of the first.
        if (sender.next == 0 && &sender != senders[i].data()) sender.until(now, static_cast<int64_t>(eachMs[i] * 5e5));
        sender.until(now, static_cast<int64_t>(eachMs[i] * 1e6));
        const LaneSample all = sender.clock.sample(now);
        capacities.add(*paths[i], all.bytes - sender.seen.bytes, all.busyNs - sender.seen.busyNs);
        sender.seen = all;
      }
    }
    return capacities.close(paths, now).size();
  }
};

}  // namespace

TEST(net_lane_clock_counts_the_message_under_way) {
  LaneClock clock;
  CHECK_EQ(clock.sample(50).busyNs, 0);
  clock.begin(100);
  CHECK_EQ(clock.sample(150).busyNs, 50);
  CHECK_EQ(clock.sample(150).bytes, 0u);  // nothing is known of its kind yet
  clock.carried(1000, 300, true);
  CHECK_EQ(clock.sample(350).bytes, 1250u);
  CHECK_EQ(clock.sample(350).busyNs, 250);
  CHECK_EQ(clock.sample(900).bytes, 2000u);  // no more than all of it, however long it takes
  CHECK_EQ(clock.sample(900).busyNs, 800);
  clock.carried(3000, 900, false);
  CHECK_EQ(clock.sample(5000).bytes, 4000u);
  CHECK_EQ(clock.sample(5000).busyNs, 800);
}

TEST(net_lane_clock_a_nic_whose_messages_outlast_windows_is_seen_as_slow_as_it_is) {
  for (const double slower : {2.0, 4.0, 8.0, 16.0}) {
    Net net(2);
    for (int i = 0; i < 50; i++) CHECK_EQ(net.window({5, 5}), 0u);
    size_t changes = 0;
    for (int i = 0; i < 250; i++) {
      changes += net.window({5, 5 * slower});
      CHECK(i < 40 || std::abs(net.paths[1]->capacity * slower - 1) < 0.3);
    }
    CHECK(changes >= 1 && changes <= 3);
    CHECK(net.paths[0]->capacity == 1.0);
  }
}
