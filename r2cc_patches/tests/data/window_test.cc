// How much a schedule's connection may have under way (data/send_window.h).
#include "data/send_window.h"

#include "check.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {
constexpr int64_t kLimitNs = msToNs(15000);
constexpr uint64_t kFirst = 4, kMore = 6, kAll = kFirst + kMore;
constexpr size_t kBytes = 72 << 10;

enum class Kind { Kept, Lent, Direct };

RigOptions narrow(Kind kind, uint64_t window, bool confirms = false) {
  RigOptions options;
  options.needsAck = options.plain = kind != Kind::Direct;
  options.lends = kind == Kind::Lent;
  options.confirms = confirms;
  options.bytes = kBytes;
  options.window = window;
  return options;
}

/// It takes so many messages more, and no other, while the receiver takes none.
void takesAtOnce(const RigOptions& options, uint64_t more) {
  Rig rig(options);
  Stream& s = rig.stream(0, 1, 0, kAll);
  s.sender->limit = s.receiver->limit = kFirst;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kFirst && s.sender->done() == kFirst; }));
  s.sender->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->posted() >= kFirst + more; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_EQ(s.sender->posted(), kFirst + more);
  s.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}
}  // namespace

TEST(net_window_has_room_for_two_messages_however_large) {
  SendWindow window(100);
  CHECK(window.ofSchedule() && window.limits());
  CHECK(!window.full(1000));
  window.given(0, 1000);
  CHECK(!window.full(1000));
  window.given(1, 1000);
  CHECK(window.full(1));
  CHECK_EQ(window.oldest(), 0u);
  window.passed(1000);
  CHECK(!window.full(1));
  window.passed(1000);
  for (uint64_t number = 2; number < 12; number++) {
    CHECK(!window.full(10));
    window.given(number, 10);
  }
  CHECK(window.full(1));
  CHECK(!SendWindow(0).ofSchedule() && !SendWindow(0).limits());
  CHECK(SendWindow(UINT64_MAX).ofSchedule() && !SendWindow(UINT64_MAX).limits());
}

TEST(net_window_bounds_what_is_under_way) {
  for (const Kind kind : {Kind::Kept, Kind::Lent, Kind::Direct}) {
    takesAtOnce(narrow(kind, 1), 2u);
    takesAtOnce(narrow(kind, 3 * kBytes), 3u);
    takesAtOnce(narrow(kind, UINT64_MAX), kMore);
    takesAtOnce(narrow(kind, 0), kMore);  // of no schedule
  }
}

/// What the receiver's kernel has is not under way.
TEST(net_window_is_free_at_the_kernels_word) { takesAtOnce(narrow(Kind::Lent, 2 * kBytes, /*confirms=*/true), kMore); }

/// A fault while the window is full: everything arrives, once and in order.
TEST(net_window_outlives_its_nic) {
  for (const Kind kind : {Kind::Kept, Kind::Lent, Kind::Direct}) {
    Rig rig(narrow(kind, 2 * kBytes));
    Stream& s = rig.stream(0, 1, 0, 400);
    s.sender->limit = s.receiver->limit = kFirst;
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kFirst; }));
    rig.fabric.cut({0, 0}, Cut::Lose);
    s.sender->limit = UINT64_MAX;
    CHECK(Rig::within(kLimitNs, [&] { return s.sender->posted() == kFirst + 2; }));
    rig.link(0, 0, false);
    s.receiver->limit = UINT64_MAX;
    CHECK(rig.allDone(kLimitNs));
    rig.stop();
    CHECK_EQ(rig.problems(), "");
  }
}
