// Long runs: random cases of the fault table, and thousands of flaps that may leave nothing behind.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <set>

#include "check.h"
#include "own_process.h"
#include "rig/door.h"
#include "rig/faults.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

using check::threads;

int descriptors(Rig& rig) {
  return check::descriptors() -
         static_cast<int>(EngineDoor::everyStream(rig.engine(0)) + EngineDoor::everyStream(rig.engine(1)));
}

/// A count once it has stood still for 250 ms: a thread that was joined stays listed until the kernel has buried it,
/// and a lane that was left is closed a little later.
int atRest(const std::function<int()>& count) {
  int last = count();
  for (int same = 0, waits = 0; same < 10 && waits < 200; waits++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    const int now = count();
    same = now == last ? same + 1 : 0;
    last = now;
  }
  return last;
}

int64_t fromEnvironment(const char* name, int64_t fallback) {
  const char* text = getenv(name);
  return text == nullptr ? fallback : strtoll(text, nullptr, 10);
}

template <class T, size_t N>
T any(std::mt19937_64& random, const T (&of)[N]) {
  return of[random() % N];
}

/// One random fault on one NIC for a random while. Never the last rail: that is another test.
void disturb(Rig& rig, std::mt19937_64& random) {
  static constexpr Fault kAny[] = {Fault::LinkAtSender, Fault::LinkAtReceiver, Fault::LinkAtBoth,
                                   Fault::BlackHole,    Fault::ErrorAtSender,  Fault::ErrorAtReceiver};
  const Fault fault = any(random, kAny);
  const int rail = static_cast<int>(random() % 3);
  inject(rig, fault, rail, random() % 2 == 0 ? Cut::Hold : Cut::Lose);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
  revert(rig, fault, rail);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 10000));
}

}  // namespace

/// R2CC_SOAK_SEED repeats a run, R2CC_SOAK_MS makes it longer.
TEST(net_soak_random_cases) {
  const auto seed = static_cast<uint64_t>(fromEnvironment("R2CC_SOAK_SEED", nowNs() / 1000));
  const int64_t end = nowNs() + msToNs(fromEnvironment("R2CC_SOAK_MS", 5000));
  std::fprintf(stderr, "R2CC_SOAK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int cases = 0;
  do {
    Case c;
    c.fault = any(random, kFaults), c.when = any(random, kWhens), c.traffic = any(random, kTraffics);
    c.needsAck = random() % 3 != 0;
    c.plain = c.needsAck && random() % 2 == 0;
    c.lends = c.plain && random() % 2 == 0;
    c.window = random() % 3 == 0 ? 1 + random() % (4 * kSlotBytes) : 0;
    c.cut = random() % 2 == 0 ? Cut::Hold : Cut::Lose;
    c.seed = random();
    c.mode = 1 + static_cast<int>(random() % 2);
    c.count = random() % 3 == 0 ? any(random, kCounts) : Count::One;
    c.onlyNic = random() % 6 == 0;
    c.few = random() % 3 == 0;
    if (!c.makesSense()) continue;
    const std::string problem = runCase(c);
    CHECK_EQ(problem.empty() ? "" : c.name() + ": " + problem, "");
    cases++;
  } while (nowNs() < end);
  std::fprintf(stderr, "%d cases\n", cases);
}

/// Faults come and go faster than they are dealt with, over traffic that never rests.
TEST(net_soak_overlapping_faults) {
  const auto seed = static_cast<uint64_t>(fromEnvironment("R2CC_SOAK_SEED", nowNs() / 1000));
  const int64_t end = nowNs() + msToNs(fromEnvironment("R2CC_SOAK_MS", 4000));
  std::fprintf(stderr, "R2CC_SOAK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  RigOptions options;
  options.mode = 1 + static_cast<int>(seed % 2);
  options.rails = 4;
  if (seed % 3 != 0) options.slots = 2, options.bytes = seed % 3 == 1 ? kSlotBytes : 0;
  Rig rig(options);
  constexpr uint64_t kMany = 100000000;
  for (int i = 0; i < 4; i++) rig.stream(i % 2, 1 - i % 2, i % 3, kMany);
  rig.start();
  CHECK(Rig::within(msToNs(15000), [&] { return rig.delivered() > 100; }));
  while (nowNs() < end) disturb(rig, random);
  rig.fabric.healAll();
  const uint64_t before = rig.delivered();
  CHECK(Rig::within(msToNs(15000), [&] { return rig.delivered() > before + 500; }));
  for (const Stream& s : rig.streams()) {  // every one of them lives
    const uint64_t at = s.receiver->done();
    CHECK(Rig::within(msToNs(15000), [&] { return s.receiver->done() > at + 10; }));
  }
  rig.stop();
  for (const Stream& s : rig.streams()) CHECK_EQ(s.receiver->wrong(), "");
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
  CHECK(rig.warnings().empty());
}

/// Invariant 9: what comes up goes away again.
TEST(net_flaps_leave_nothing_behind) {
  Rig rig({});
  rig.stream(0, 1, 0, 100000000);
  rig.start();
  CHECK(Rig::within(msToNs(15000), [&] { return rig.delivered() > 100; }));
  const auto files = [&] { return descriptors(rig); };
  const int fds = atRest(files);
  const int tasks = atRest(threads);
  for (int flap = 0; flap < 1000; flap++) {  // a NIC that flaps is soon left alone
    rig.link(0, flap % 2, false);
    std::this_thread::sleep_for(std::chrono::microseconds(200 + flap % 7 * 100));
    rig.link(0, flap % 2, true);
  }
  int failed = 0;
  for (int error = 0; error < 1000; error++) {  // a lane that fails is replaced each time
    const int before = rig.fabric.counts().made;
    for (int rail = 0; rail < 3; rail++) {
      if (rig.fabric.lanes({0, rail}) > 0) rig.fabric.breakComms({0, rail});
    }
    if (!Rig::within(msToNs(5000), [&] { return rig.fabric.counts().made > before; })) failed++;
  }
  CHECK_EQ(failed, 0);
  const uint64_t at = rig.delivered();
  CHECK(Rig::within(msToNs(15000), [&] { return rig.delivered() > at + 500; }));
  const auto few = [&] { return rig.fabric.counts().comms <= 8 && rig.fabric.counts().listens <= 2; };
  CHECK(Rig::within(msToNs(3000), few));
  CHECK_EQ(atRest(files), fds);
  CHECK_EQ(atRest(threads), tasks);
  CHECK(rig.fabric.counts().made > 1000);
  CHECK(rig.fabric.counts().made < 40000);
  rig.stop();
  CHECK_EQ(rig.streams()[0].receiver->wrong(), "");
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}

/// Every flap is survived, and gone back from, as fast as it goes: R2CC_FLAPS of them (10,000 in the nightly run).
TEST(net_flaps_without_damping) {
  RigOptions options;
  options.mode = 2;
  options.probationNs = 0;
  options.damping = false;
  Rig rig(options);
  rig.stream(0, 1, 0, 100000000);
  rig.start();
  CHECK(Rig::within(msToNs(15000), [&] { return rig.delivered() > 100; }));
  const int64_t flaps = fromEnvironment("R2CC_FLAPS", 100);
  int fds = 0;
  int tasks = 0;
  int lost = 0;
  const auto home = [&] { return rig.fabric.lanes({0, 0}) > 0 && rig.fabric.counts().comms <= 8; };
  const auto files = [&] { return descriptors(rig); };
  for (int64_t flap = 0; flap < flaps; flap++) {
    if (flap == flaps / 10) {  // warm by now
      CHECK(Rig::within(msToNs(5000), home));
      fds = atRest(files), tasks = atRest(threads);
    }
    const int before = rig.seen(Type::Switched);
    inject(rig, Fault::LinkAtBoth, 0, flap % 2 == 0 ? Cut::Hold : Cut::Lose);
    std::this_thread::sleep_for(std::chrono::microseconds(flap % 5 * 1000));
    revert(rig, Fault::LinkAtBoth, 0);
    // Balanced, or home again at once: in any case another plan was agreed since.
    if (!Rig::within(msToNs(15000), [&] { return rig.seen(Type::Switched) > before; })) lost++;
  }
  CHECK_EQ(lost, 0);
  CHECK(Rig::within(msToNs(5000), home));
  CHECK_EQ(atRest(files), fds);
  CHECK_EQ(atRest(threads), tasks);
  rig.stop();
  CHECK_EQ(rig.streams()[0].receiver->wrong(), "");
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
  CHECK(rig.warnings().empty());
}

/// With damping a NIC that flaps is soon left alone, but never for good: it is back one (bounded) probation after the
/// last flap.
TEST(net_flaps_are_damped) {
  RigOptions options;
  options.probationNs = msToNs(10);
  std::mutex mutex;
  std::set<uint32_t> agreed;  // each once: on a busy machine an answer is sent again
  Rig rig(options);
  rig.spy = [&](int, const NicAddress&, const std::vector<uint8_t>& bytes) {
    const auto parsed = Parsed::open(bytes.data(), bytes.size());
    if (!parsed) return;
    (void)parsed->forEach([&](Type type, Reader& reader) {
      if (type != Type::Switched) return;
      Switched message;
      reader(message);
      const std::lock_guard<std::mutex> lock(mutex);
      agreed.insert(message.epoch);
    });
  };
  const auto switches = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return agreed.size();
  };
  rig.stream(0, 1, 0, 100000000);
  rig.start();
  CHECK(Rig::within(msToNs(15000), [&] { return rig.delivered() > 100; }));
  size_t mayReturn = 1;  // one flap may go unnoticed, and not be counted
  for (int flap = 0; flap < 100; flap++) {
    inject(rig, Fault::LinkAtBoth, 0, Cut::Hold);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const int64_t quiet = nowNs();
    revert(rig, Fault::LinkAtBoth, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(35));
    mayReturn += nowNs() - quiet >= options.probationNs << std::min(flap, 6) ? 1 : 0;
  }
  // The first two are gone back from; then the probation (10 ms, doubled each time) outlasts the quiet 35 ms, or
  // however long they were on a busy machine.
  CHECK(switches() <= mayReturn);
  const size_t before = switches();
  const int64_t start = nowNs();
  CHECK(Rig::within(msToNs(5000), [&] { return switches() > before; }));
  const int64_t tookMs = (nowNs() - start) / 1000000;
  CHECK(tookMs > 300 && tookMs < 1500);  // 640 ms is the most
  rig.stop();
  CHECK_EQ(rig.streams()[0].receiver->wrong(), "");
}

TEST(net_engines_leave_nothing_behind) {
  CHECK_EQ(runCase({}), "");  // what is made once and kept is there: TSan's own thread
  const int fds = check::descriptors();
  const int tasks = atRest(threads);
  for (int i = 0; i < 20; i++) {
    Case c;
    c.seed = static_cast<uint64_t>(i);
    CHECK_EQ(runCase(c), "");
  }
  CHECK_EQ(check::descriptors(), fds);
  CHECK_EQ(atRest(threads), tasks);
}
