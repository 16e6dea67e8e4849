// Acknowledgements come to sockets of their own, and whoever waits for them fetches them: the engine may sleep.
#include <algorithm>
#include <map>
#include <set>

#include "budget.h"
#include "check.h"
#include "rig/door.h"
#include "rig/hostile.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

int64_t limitNs() { return msToNs(20000) * check::slowness(); }

std::set<Type> typesIn(const std::vector<uint8_t>& bytes) {
  std::set<Type> types;
  if (const auto parsed = Parsed::open(bytes.data(), bytes.size())) {
    parsed->forEach([&](Type type, Reader&) { types.insert(type); });
  }
  return types;
}

}  // namespace

/// Large messages, which are done when they are acknowledged; and small ones, of which so many are kept.
TEST(net_acks_are_fetched_while_the_engine_sleeps) {
  constexpr uint64_t kSome = 500;
  const int tries = 5 * check::slowness();
  for (const bool kept : {false, true}) {
    RigOptions options;
    options.plain = kept;
    options.bytes = kept ? 4096 : 65536;
    Rig rig(options);
    Stream& s = rig.stream(0, 1, 0, UINT64_MAX / 2);
    s.sender->limit = kSome;
    rig.start();
    CHECK(Rig::within(limitNs(), [&] { return rig.delivered() == kSome; }));
    bool slept = false;
    // The other end may have something to say meanwhile, about a lane it made or as it is late: then once more.
    for (int n = 0; n < tries && !slept; n++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      EngineDoor::rest(rig.engine(0), 10 * limitNs());
      s.sender->limit += kSome;
      CHECK(Rig::within(limitNs(), [&] { return s.sender->done() == s.sender->limit; }));
      slept = EngineDoor::rests(rig.engine(0), limitNs());
    }
    CHECK(slept);
    CHECK(Rig::within(limitNs(), [&] { return s.receiver->done() == s.sender->limit; }));
    rig.stop();
    CHECK_EQ(s.receiver->wrong(), "");
    CHECK(rig.fabric.violations().empty() && rig.warnings().empty());
  }
}

/// What needs the engine wakes it; nothing else does.
TEST(net_acks_have_sockets_of_their_own) {
  Captured captured;
  RigOptions options;
  options.bytes = 65536;
  Rig rig(options);
  captured.watch(rig, 100000);
  rig.stream(0, 1, 0, 1000);
  rig.start();
  CHECK(rig.allDone(limitNs()));
  rig.stop();
  std::set<uint16_t> ackPorts;
  for (int host = 0; host < 2; host++) {
    for (const NicAddress& nic : EngineDoor::addresses(rig.engine(host))) {
      CHECK(nic.ackPort != 0 && nic.ackPort != nic.port);
      ackPorts.insert(nic.ackPort);
    }
  }
  CHECK_EQ(ackPorts.size(), 6u);
  size_t there = 0, elsewhere = 0;
  for (const Captured::One& one : captured.all()) {
    const std::set<Type> types = typesIn(one.bytes);
    if (ackPorts.count(one.to.port) != 0) {
      there++;
      CHECK(types == std::set<Type>{Type::Ack});
    } else {
      elsewhere += types == std::set<Type>{Type::Ack} ? 1 : 0;  // the engine was asked for it
    }
  }
  CHECK(there >= 1000 / 8 && elsewhere <= there / 10);
}

/// A genuine datagram that somebody turns aside to that socket does nothing there, and counts as the rubbish it is.
TEST(net_acks_alone_are_taken_from_their_sockets) {
  const Stranger stranger;
  Captured captured;
  Rig rig({});
  captured.watch(rig);
  const Stream& s = rig.stream(0, 1, 0, 100);
  rig.loseType(Type::Hello, true);
  rig.start();
  const auto lost = [&](Type type) {
    for (const Captured::One& one : captured.all()) {
      if (typesIn(one.bytes).count(type) != 0) return one.bytes;
    }
    return std::vector<uint8_t>{};
  };
  const auto turnAside = [&](const std::vector<uint8_t>& bytes, int host) {
    NicAddress to = EngineDoor::addresses(rig.engine(host))[0];
    to.port = to.ackPort;
    stranger.send(to, bytes);
  };
  CHECK(Rig::within(limitNs(), [&] { return !lost(Type::Hello).empty(); }));
  // Ports are used again: another program's datagrams may come, too.
  const uint64_t strangers = rig.engine(1).droppedByReason().stranger;
  turnAside(lost(Type::Hello), 1);  // of who sends: he has nothing to acknowledge
  CHECK(Rig::within(limitNs(), [&] { return rig.engine(1).droppedByReason().stranger > strangers; }));
  CHECK_EQ(EngineDoor::held(rig.engine(1)).peers, 0u);
  rig.loseType(Type::Welcome, true), rig.loseType(Type::Hello, false);
  CHECK(Rig::within(limitNs(), [&] { return !lost(Type::Welcome).empty(); }));
  const uint64_t malformed = rig.engine(0).droppedByReason().malformed;
  turnAside(lost(Type::Welcome), 0);  // of who receives, but no acknowledgement
  CHECK(Rig::within(limitNs(), [&] { return rig.engine(0).droppedByReason().malformed > malformed; }));
  CHECK(s.sender->state() == End::State::Connecting);
  rig.loseType(Type::Welcome, false);
  CHECK(rig.allDone(limitNs()));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

/// As many forgeries as this machine can send: whoever waits for acknowledgements has other things to do, too.
TEST(net_acks_flooded_do_not_stop_the_data) {
  Captured captured;
  RigOptions options;
  options.bytes = 65536;
  Rig rig(options);
  captured.watch(rig);
  Stream& s = rig.stream(0, 1, 0, check::much(3000, 900));
  s.sender->limit = 300;
  rig.start();
  CHECK(Rig::within(limitNs(), [&] { return rig.delivered() == 300; }));
  NicAddress to = EngineDoor::addresses(rig.engine(0))[0];
  to.port = to.ackPort;
  const auto seen = captured.all();
  const auto ack = std::find_if(seen.begin(), seen.end(), [&](const auto& one) { return one.to.port == to.port; });
  CHECK(ack != seen.end());
  if (ack == seen.end()) return;
  std::vector<uint8_t> big = ack->bytes;
  big.resize(1400);
  Flood flood(to, check::sanitized() ? 20000 : 0, [big](uint64_t) { return big; });
  CHECK(Rig::within(limitNs(), [&] { return rig.engine(0).droppedByReason().forged > 1000; }));
  s.sender->limit = UINT64_MAX;
  CHECK(rig.allDone(limitNs()));
  flood.stop();
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}
