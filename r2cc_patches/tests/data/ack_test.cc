// When a receiver acknowledges: before its sender starves, however many slots that has and whatever it mixes.
#include <algorithm>

#include "check.h"
#include "data/ack_rule.h"

using namespace r2cc;

namespace {

int64_t clockNs = 0;

/// Messages that arrive one by one, in order; what is due is acknowledged.
struct Receiver {
  AckRule rule{[] { return clockNs; }};
  uint64_t delivered = 0, acked = 0;
  size_t budget = kMostCopyBytes;

  /// True when this one was acknowledged, with `waiting` receives left.
  bool take(size_t bytes, int waiting) {
    using Sender = AckRule::Sender;
    rule.arrived(delivered++, bytes,
                 bytes <= kKeepBytes ? Sender::KeepsCopy
                 : seen              ? Sender::SeesOurKernel
                                     : Sender::Waits);
    return look(waiting);
  }
  bool seen = false;  // the sender sees what large ones our kernel has
  bool look(int waiting) {
    if (!rule.due(delivered, delivered, acked, waiting, budget)) return false;
    acked = delivered;
    return true;
  }
};

/// How many messages of one size it takes until they are acknowledged, while NCCL waits for many more.
int until(size_t bytes, bool seen = false) {
  Receiver r;
  r.seen = seen;
  for (int n = 1; n <= 1000; n++) {
    if (r.take(bytes, 32)) return n;
  }
  return 0;
}

}  // namespace

TEST(net_acks_come_before_the_sender_starves) {
  for (const int slots : {1, 2, 4, 8}) {
    // The receiver has just taken messages one by one, and NCCL has not yet asked for more.
    uint64_t unacked = 1;
    for (int waiting = slots - 1; unacked < AckRule::every(waiting); waiting--) unacked++;
    CHECK(unacked <= static_cast<uint64_t>(std::max(1, slots / 2)));
    CHECK(slots < 8 || unacked >= 3);  // and not one for each
  }
  CHECK_EQ(AckRule::every(0), 1u);
  CHECK_EQ(AckRule::every(32), 4u);
}

TEST(net_acks_that_nobody_waits_for_come_after_the_message) {
  Receiver r;
  r.seen = true;
  for (uint64_t n = 1; n < 2 * kRescuedDue; n++) {
    r.rule.arrived(r.delivered++, kKeepBytes + 1, AckRule::Sender::SeesOurKernel);
    CHECK(r.rule.laterWillDo(r.delivered, r.acked));
  }
  r.rule.arrived(r.delivered++, kKeepBytes + 1, AckRule::Sender::SeesOurKernel);
  CHECK(!r.rule.laterWillDo(r.delivered, r.acked));  // or it never came
  r.acked = r.delivered;
  r.rule.arrived(r.delivered++, kKeepBytes + 1, AckRule::Sender::SeesOurKernel);
  r.rule.arrived(r.delivered++, kKeepBytes + 1, AckRule::Sender::Waits);
  CHECK(!r.rule.laterWillDo(r.delivered, r.acked));
}

TEST(net_acks_are_few) {
  CHECK_EQ(until(kKeepBytes + 1), 4);
  CHECK_EQ(until(kKeepBytes + 1, true), static_cast<int>(kRescuedDue));
  CHECK_EQ(until(kKeepBytes), 16);
  CHECK_EQ(until(kKeepBytes / 2), 32);
  CHECK_EQ(until(4096), 64);
  CHECK_EQ(until(0), 64);
  Receiver r;
  CHECK(!r.look(0));  // nothing is here
  CHECK(!r.take(8, 0) && !r.rule.urgent(0));
}

TEST(net_acks_of_large_messages_do_not_wait_for_small_ones) {
  // NCCL sends a chunk of 24 KiB as {24 KiB, nothing}: with four slots two of them wait for the receiver's word.
  Receiver r;
  bool acknowledged = false;
  for (int n = 0; n < 4; n++) acknowledged |= r.take(n % 2 == 0 ? 24576 : 0, 3 - n);
  CHECK(acknowledged && r.acked >= 3);  // both large ones
  // The last one of an operation is small, and nobody asks for more.
  CHECK(r.take(24576, 1) && !r.take(100, 0));
}

TEST(net_acks_leave_a_sender_room_for_copies) {
  CHECK_EQ(copyBudget(0), kMostCopyBytes);
  CHECK_EQ(copyBudget(16), kMostCopyBytes);
  CHECK_EQ(copyBudget(64), kMostCopyBytes / 4);
  CHECK_EQ(copyBudget(100000), 2 * kKeepBytes);
  for (const size_t connections : {1, 32, 1000}) {
    Receiver r;
    r.budget = copyBudget(connections);
    uint64_t random = 7;
    size_t bytes = 0;
    for (int n = 0; n < 10000; n++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const size_t size = random >> 33 & (n / 1000 % 2 == 0 ? kKeepBytes : 255);
      bytes += size;
      if (r.take(size, 32)) bytes = 0;
      if (n % 97 == 0) r.acked = r.delivered, bytes = 0;  // together with another connection
      // Half of what the sender has is free, but for one that came just after others were acknowledged.
      CHECK(bytes < r.budget / 2 + kKeepBytes && r.delivered - r.acked < kMostCopies / 2);
    }
  }
}

TEST(net_acks_come_in_time_to_a_sender_with_fewer_slots) {
  clockNs = msToNs(1000);
  Receiver r;
  CHECK(!r.take(100000, 7) && !r.take(100000, 6));  // all that the sender can have under way
  clockNs += msToNs(1);
  CHECK(!r.look(6));
  clockNs += msToNs(1);
  CHECK(r.look(6));
  CHECK(!r.look(6));
  Receiver kept;  // for these nobody waits
  CHECK(!kept.take(100, 7));
  clockNs += msToNs(1000);
  CHECK(!kept.look(7));
}

TEST(net_acks_of_the_last_large_message_are_urgent) {
  Receiver r;
  CHECK(r.take(65536, 0) && r.rule.urgent(0) && !r.rule.urgent(1));
  CHECK(r.take(65535, 0) && !r.rule.urgent(0));
}

/// A sender with one message on its way, cut into parts, and a receiver that NCCL asked for more: the parts come over
/// several NICs, in any order and some at a time. No timer is waited for, and no part is acknowledged for itself.
TEST(net_acks_of_a_message_in_parts_come_with_its_last) {
  for (uint64_t parts = 2; parts <= 8; parts++) {
    for (uint64_t atATime = 1; atATime <= parts; atATime++) {
      AckRule rule([] { return clockNs; });
      uint64_t acked = 0;
      int datagrams = 0;
      for (uint64_t first = 0; first < 20 * parts; first += parts) {
        for (uint64_t here = 0; here < parts;) {
          const uint64_t before = here;
          here = std::min(parts, here + atATime);
          for (uint64_t part = before; part < here; part++) {
            rule.arrived(first + parts - 1 - part, 24576, AckRule::Sender::Waits, true);
          }
          // The last to come is the first of all: until then, no prefix is complete.
          const uint64_t whole = here == parts ? first + parts : first;
          const bool due = rule.due(whole, whole, acked, 32, kMostCopyBytes);
          CHECK(due == (here == parts));
          CHECK(rule.starves(whole, acked) == (here == parts) && (!due || rule.urgent(0)));
          if (due) acked = whole, datagrams++;
        }
        CHECK_EQ(acked, first + parts);
      }
      CHECK_EQ(datagrams, 20);
    }
  }
}

/// The same where they come in order: what is there of a message is not news to its sender, and all of it is.
TEST(net_acks_of_a_message_in_parts_do_not_wait_for_the_timer) {
  constexpr uint64_t kParts = 8;
  AckRule rule([] { return clockNs; });
  for (uint64_t n = 0; n < 5; n++) rule.arrived(n, 24576, AckRule::Sender::Waits, true);
  CHECK(!rule.due(5, 0, 0, 27, kMostCopyBytes) && !rule.starves(0, 0));
  // Another connection's datagram took the count along.
  for (uint64_t n = 5; n < kParts; n++) rule.arrived(n, 24576, AckRule::Sender::Waits, true);
  CHECK(rule.due(kParts, kParts, 5, 24, kMostCopyBytes) && rule.starves(kParts, 5));
  CHECK(!rule.due(kParts, kParts, kParts, 24, kMostCopyBytes));
  // In sight in our kernel, nobody waits for it.
  AckRule seen([] { return clockNs; });
  for (uint64_t n = 0; n < 4; n++) seen.arrived(n, 24576, AckRule::Sender::SeesOurKernel, true);
  CHECK(!seen.due(4, 4, 0, 4, kMostCopyBytes) && !seen.starves(4, 0) && !seen.urgent(0));
}

TEST(net_acks_of_a_peers_connections_go_together) {
  constexpr int64_t kSoon = usToNs(100);
  CHECK(AckRule::waitsForOthers(1, 0, 1, kSoon));
  CHECK(AckRule::waitsForOthers(3, 0, 1, kSoon) && !AckRule::waitsForOthers(4, 0, 1, kSoon));  // half of NCCL's slots
  CHECK(AckRule::waitsForOthers(1, 5, 1, kSoon) && !AckRule::waitsForOthers(2, 5, 1, kSoon));  // it may have four
  for (const uint64_t unacked : {1, 2, 3, 4}) {
    for (const int waiting : {0, 1, 8}) {
      CHECK(!AckRule::waitsForOthers(unacked, waiting, 0, kSoon));  // the last of all: at once
      CHECK(!AckRule::waitsForOthers(unacked, waiting, 8, usToNs(500)));
    }
  }
}
