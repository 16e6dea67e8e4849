// Slots that NCCL's fork lends (data/slot_credits.h): it is told "done" before the receiver has a message, and its GPU
// writes to the slot only when the head says so. The sender of these tests fills a slot with rubbish as soon as it may.
#include <mutex>
#include <thread>

#include "budget.h"
#include "check.h"
#include "data/lent_looks.h"
#include "data/slot_credits.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {
constexpr int64_t kLimitNs = msToNs(15000);
constexpr uint64_t kFirst = 4, kMore = 4, kAll = kFirst + kMore;  // the fake kernel takes so many that nobody reads
constexpr size_t kLarge = kKeepLateBytes + 4096;                  // no copy is made of it

RigOptions lending() {
  RigOptions options;
  options.plain = options.lends = true;
  options.bytes = kLarge;
  options.holdNs = msToNs(1500);
  return options;
}

/// Connected, and the first few are there and their slots free.
Stream& begun(Rig& rig, uint64_t messages = kAll) {
  Stream& s = rig.stream(0, 1, 0, messages);
  s.sender->limit = s.receiver->limit = kFirst;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kFirst && s.sender->free() == kFirst; }));
  return s;
}

/// NCCL is told that so many are done while the receiver takes nothing, and no slot of theirs is free. A path that is
/// cut may be found dead meanwhile, the sooner the busier the machine. Then the receiver's kernel has them all the
/// same.
void lend(Rig& rig, Stream& s, int freezes) {
  s.sender->limit = kAll;
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() == kAll; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_EQ(s.receiver->done(), kFirst);
  const uint64_t free = s.sender->free();
  if (rig.seen(Type::Freeze) == freezes) CHECK_EQ(free, kFirst);
}

void arriveAll(Rig& rig, Stream& s) {
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return s.receiver->state() == End::State::Done; }));
  rig.stop();
  CHECK_EQ(s.receiver->wrong(), "");
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}
}  // namespace

TEST(net_credits_are_given_in_order_and_never_early) {
  SlotCredits credits;
  CHECK(!credits.begun() && !credits.room());
  credits.begin(6);
  CHECK(credits.begun() && credits.room() && credits.empty());
  credits.told({3, 4, 8, true});
  credits.told({4, 6, 12, false});
  CHECK(!credits.news());
  CHECK_EQ(credits.publish(), 6u);
  CHECK_EQ(credits.lentSteps(), 6u);
  CHECK_EQ(credits.oldest().end, 4u);
  credits.pass();
  CHECK(credits.news());
  CHECK_EQ(credits.publish(), 8u);
  CHECK(!credits.news());
  CHECK_EQ(credits.lentSteps(), 4u);
  credits.pass();
  CHECK_EQ(credits.publish(), 12u);
  CHECK(credits.empty());
  CHECK_EQ(credits.lentSteps(), 0u);
  for (uint64_t number = 0; credits.room(); number++) CHECK(credits.told({number, number + 1, 13 + number, true}));
  // NCCL never asks for so many. What is beyond counts as a part of the newest.
  uint64_t number = 100;
  while (credits.told({number, number + 1, number + 1, false})) number++;
  while (credits.oldest().end <= number) credits.pass();
  CHECK_EQ(credits.oldest().end, number + 1);
  CHECK(credits.publish() < number + 1);
}

/// "Done" says that the next operation may begin; the slot is free when the receiver has the message.
TEST(net_credits_come_with_the_receivers_word) {
  for (const size_t bytes : {kKeepBytes + 4096, kLarge}) {  // the first would have been copied late
    RigOptions options = lending();
    options.bytes = bytes;
    options.confirms = false;
    Rig rig(options);
    Stream& s = begun(rig, kAll + 1);
    lend(rig, s, rig.seen(Type::Freeze));
    s.receiver->limit = kAll;
    CHECK(Rig::within(kLimitNs, [&] { return s.sender->free() == kAll; }));
    arriveAll(rig, s);
    CHECK(rig.warnings().empty());
  }
}

/// A look is a system call: the next one comes when the rest should be there, not sooner, nor much later.
TEST(net_credits_are_looked_for_when_they_should_be_there) {
  LentLooks looks;
  const uint64_t many = LentLooks::kStepsThatMatter, few = many - 1;
  int64_t now = msToNs(5);
  CHECK(looks.due(many, now) && looks.due(few, now));
  looks.lacks(7, 60'000, now);  // no rate is known
  CHECK(!looks.due(many, now + LentLooks::kLeastNs - 1));
  CHECK(looks.due(many, now + LentLooks::kLeastNs));
  now += usToNs(20);
  looks.lacks(7, 40'000, now);  // 1 ns a byte
  CHECK(!looks.due(many, now + usToNs(40) - 1));
  CHECK(looks.due(many, now + usToNs(40)));
  CHECK(!looks.due(few, now + LentLooks::kMostNs - 1));  // nobody waits for these
  CHECK(looks.due(few, now + LentLooks::kMostNs));
  now += usToNs(40);
  looks.allThere(now);
  CHECK(looks.due(many, now));
  CHECK(!looks.due(few, now + LentLooks::kMostNs - 1));
  looks.lacks(8, 30'000, now);  // the rate is remembered
  CHECK(!looks.due(many, now + usToNs(30) - 1));
  CHECK(looks.due(many, now + usToNs(30)));
  for (int64_t pause = usToNs(60); pause < 4 * LentLooks::kMostNs; pause *= 2) {  // nothing moves
    now += LentLooks::kMostNs;
    looks.lacks(8, 30'000, now);
    CHECK(!looks.due(many, now + std::min(pause, LentLooks::kMostNs) - 1));
    CHECK(looks.due(many, now + std::min(pause, LentLooks::kMostNs)));
  }
  CHECK(!looks.due(LentLooks::kAllSteps, now + LentLooks::kLeastNs - 1));  // the GPU waits
  CHECK(looks.due(LentLooks::kAllSteps, now + LentLooks::kLeastNs));
  CHECK(!looks.blind(LentLooks::kAllSteps));
  looks.lacks(9, 0, now);  // nobody can say
  CHECK(looks.due(many, now + LentLooks::kLeastNs));
  CHECK(looks.blind(LentLooks::kAllSteps) && !looks.blind(many));
  looks.lacks(10, 2, now);
  now += msToNs(3'600'000);
  looks.lacks(10, 1, now);  // an hour a byte
  looks.lacks(11, 1ull << 40, now);
  CHECK(!looks.due(many, now + LentLooks::kLeastNs - 1));
  CHECK(looks.due(many, now + LentLooks::kMostNs));
}

/// A receiver's kernel that has it is enough, as it gives nothing back.
TEST(net_credits_come_with_the_kernels_word) {
  Rig rig(lending());
  Stream& s = begun(rig, kAll + 1);
  rig.loseType(Type::Ack, true);
  s.sender->limit = s.receiver->limit = kAll;
  CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() == kAll && s.sender->free() > kFirst; }));
  rig.loseType(Type::Ack, false);
  arriveAll(rig, s);
}

/// What a lost NIC had goes out again from the slots, or from copies once NCCL has taken its memory away and closed.
TEST(net_credits_of_what_a_nic_loses_are_paid) {
  for (const bool closed : {false, true}) {
    for (const Cut how : {Cut::Hold, Cut::Lose}) {
      Rig rig(lending());
      Stream& s = begun(rig);
      const int freezes = rig.seen(Type::Freeze);
      rig.fabric.cut({0, 0}, how);
      lend(rig, s, freezes);
      if (closed) {
        rig.stop();
        s.sender->close();
        rig.start();
      }
      rig.link(0, 0, false);
      CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > freezes; }));
      arriveAll(rig, s);
      rig.fabric.healAll();
    }
  }
}

/// The memory goes in the middle of the exchange, when what was lost goes out again.
TEST(net_credits_survive_that_memory_goes_while_it_is_sent_again) {
  const int times = check::much(40, 10);
  for (int n = 0; n < times; n++) {
    RigOptions options = lending();
    options.seed = static_cast<uint64_t>(n) + 1;
    Rig rig(options);
    Stream& s = begun(rig);
    const int freezes = rig.seen(Type::Freeze);
    rig.fabric.cut({0, 0}, n % 2 == 0 ? Cut::Hold : Cut::Lose);
    lend(rig, s, freezes);
    s.receiver->limit = UINT64_MAX;
    rig.link(0, 0, false);
    std::this_thread::sleep_for(std::chrono::microseconds(n * 300));
    rig.stop();
    s.sender->close();
    rig.start();
    arriveAll(rig, s);
    rig.fabric.healAll();
  }
}

/// Cut messages, too: all parts of one share a slot.
TEST(net_credits_of_messages_in_parts) {
  RigOptions options = lending();
  options.mode = 2;
  options.slots = 2;
  options.bytes = kSlotBytes;
  options.rails = 4;
  Rig rig(options);
  const uint64_t messages = check::much(4000, 1000);
  rig.stream(0, 1, 0, messages);
  rig.stream(1, 0, 1, messages);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 600; }));
  rig.link(0, 0, false);
  CHECK(rig.allDone(2 * kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

/// All slots are lent when no path is left: NCCL has nothing to send and nothing to test, and still it must hear of it.
TEST(net_credits_that_never_come_are_an_error) {
  for (const bool lends : {false, true}) {
    RigOptions options = lending();
    options.lends = lends;
    options.slots = kMore;
    options.confirms = false;
    Rig rig(options);
    Stream& s = begun(rig, 64);
    for (int rail = 0; rail < 3; rail++) rig.fabric.cut({0, rail}, Cut::Hold);
    s.sender->limit = UINT64_MAX;
    if (lends) CHECK(Rig::within(kLimitNs, [&] { return s.sender->done() == kAll; }));
    for (int rail = 0; rail < 3; rail++) rig.link(0, rail, false);
    CHECK(Rig::within(kLimitNs, [&] { return s.sender->state() == End::State::Failed; }));
    CHECK_EQ(s.sender->free(), kFirst);
    rig.stop();
    rig.fabric.healAll();
  }
}

/// NCCL would have waited for a large message as long as R2CC_HOLD_MS says: so does the end of its process.
TEST(net_credits_are_paid_before_the_process_ends) {
  RigOptions options = lending();
  options.holdNs = msToNs(10000);
  std::mutex mutex;
  int told = 0;
  options.log = [&](int host, const std::string& line) {
    const std::lock_guard<std::mutex> lock(mutex);
    told += host == 0 && line.find("has not taken yet") != std::string::npos ? 1 : 0;
  };
  Rig rig(options);
  Stream& s = begun(rig);
  for (int rail = 0; rail < 3; rail++) rig.fabric.cut({0, rail}, Cut::Lose);
  lend(rig, s, rig.seen(Type::Freeze));
  for (int rail = 0; rail < 3; rail++) rig.link(1, rail, false);
  s.receiver->limit = UINT64_MAX;
  rig.stop();
  s.sender->close();
  rig.start();
  std::thread repair([&rig] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2600));
    rig.fabric.healAll();
    for (int rail = 0; rail < 3; rail++) rig.link(1, rail, true);
  });
  rig.endEngine(0);
  repair.join();
  CHECK(Rig::within(kLimitNs, [&] { return s.receiver->state() == End::State::Done; }));
  rig.stop();
  CHECK_EQ(s.receiver->wrong(), "");
  const std::lock_guard<std::mutex> lock(mutex);
  CHECK_EQ(told, 1);
}

/// However late it asks, whether their process goes on or has ended.
TEST(net_credits_of_a_closed_connection_wait_for_a_late_receiver) {
  for (const bool ends : {false, true}) {
    RigOptions options = lending();
    options.holdNs = msToNs(300);
    options.confirms = false;
    Rig rig(options);
    Stream& s = begun(rig);
    lend(rig, s, rig.seen(Type::Freeze));
    rig.stop();
    s.sender->close();
    if (ends) rig.endEngine(0);
    std::this_thread::sleep_for(std::chrono::nanoseconds(4 * options.holdNs));
    rig.start();
    arriveAll(rig, s);
  }
}

/// The receiver closes in good order while NCCL asks for credit: its Bye acknowledges all, and nothing is an error.
TEST(net_credits_end_in_good_order) {
  const int times = check::much(60, 15);
  for (int n = 0; n < times; n++) {
    RigOptions options = lending();
    options.confirms = false;
    options.rails = 1;
    Rig rig(options);
    Stream& s = begun(rig, kAll + 1);
    lend(rig, s, rig.seen(Type::Freeze));
    rig.loseType(Type::Ack, true);
    s.receiver->limit = kAll;
    CHECK(Rig::within(kLimitNs, [&] { return s.receiver->done() == kAll; }));
    rig.stop();
    auto& connection = *static_cast<SendConnection*>(static_cast<Connection*>(s.sender->comm()));
    std::atomic<bool> closed{false};
    ncclResult_t result = ncclSuccess;
    uint64_t head = 0;
    std::thread asks([&] {
      bool more = false;
      const int64_t end = nowNs() + kLimitNs;
      while (result == ncclSuccess && head < kAll && !(closed && connection.over()) && nowNs() < end) {
        result = connection.moreCredit(head, more);
      }
      if (result == ncclSuccess && head < kAll) result = connection.moreCredit(head, more);
    });
    s.receiver->close();
    closed = true;
    asks.join();
    CHECK_EQ(result, ncclSuccess);
    CHECK_EQ(head, kAll);
    rig.loseType(Type::Ack, false);
  }
}
