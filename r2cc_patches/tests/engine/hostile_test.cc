// A hostile stranger against engines with traffic: nothing changes but a counter.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <utility>

#include "budget.h"
#include "check.h"
#include "rig/door.h"
#include "rig/hostile.h"
#include "wire/keys.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

using check::sanitized, check::slowness;  // a flood is for the speed that a user's engine has
// 12,500 datagrams of one host alone would be more. A sanitizer keeps what was freed for a while, to be watched.
int64_t growthKb() { return sanitized() ? 1 << 20 : 1024; }
int floodRate() { return sanitized() ? 20000 : 0; }  // datagrams a second; 0: as many as can be sent
int64_t limitNs() { return msToNs(20000) * slowness(); }

void pauseMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

uint64_t dropped(Rig& rig) { return rig.engine(0).dropped() + rig.engine(1).dropped(); }
uint64_t reason(Rig& rig, std::atomic<uint64_t> Dropped::* which) {
  return rig.engine(0).droppedByReason().*which + rig.engine(1).droppedByReason().*which;
}

/// The address that host `to` was last written to on this rail.
NicAddress addressOf(const std::vector<Captured::One>& seen, int host, int rail) {
  const auto there = [&](const Captured::One& one) { return one.to.ip[2] == rail + 1 && one.to.ip[3] == host + 1; };
  const auto found = std::find_if(seen.begin(), seen.end(), there);
  CHECK(found != seen.end());
  return found == seen.end() ? NicAddress{} : found->to;
}

/// Waits until so many were dropped, and so many of them because they came before. An engine that waits long for a core
/// opens a second way beside UDP. Until that ends, what comes twice is not counted, and is sent `again` behind it, with
/// all else of its batch: the sum alone would not say that replays are missing.
bool refused(Rig& rig, uint64_t drops, uint64_t replays, const std::function<void()>& again) {
  const int64_t deadlineNs = nowNs() + limitNs();
  const auto twoWays = [&] { return EngineDoor::hearsTwice(rig.engine(0)) || EngineDoor::hearsTwice(rig.engine(1)); };
  bool uncounted = false;
  const auto counted = [&] {
    uncounted = uncounted || twoWays();
    return dropped(rig) >= drops && reason(rig, &Dropped::replayed) >= replays;
  };
  while (!Rig::within(msToNs(1000), counted)) {
    if (nowNs() > deadlineNs) return false;
    if (!uncounted || !Rig::within(limitNs(), [&] { return !twoWays(); })) continue;
    uncounted = false;
    again();
  }
  return true;
}

/// Names the right receiver, and so passes the kernel's filter: what an eavesdropper can make.
std::vector<uint8_t> forgery(std::vector<uint8_t> genuine, uint64_t i) {
  const size_t behindHeader = 48 + i % (genuine.size() - 48);
  genuine[behindHeader] ^= static_cast<uint8_t>(1 + i % 255);
  return genuine;
}

/// Streams both ways over all rails: running until lift(), so that an attack meets traffic.
struct Traffic {
  explicit Traffic(Rig& rig, uint64_t messages = 4000) : rig(rig), messages(messages) {
    captured.watch(rig);
    for (int rail = 0; rail < 3; rail++) rig.stream(rail % 2, 1 - rail % 2, rail, messages);
    for (Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = messages / 4;
    rig.start();
    CHECK(Rig::within(limitNs(), [&] { return rig.delivered() == 3 * (messages / 4); }));
    pauseMs(700);  // the standby lanes are made
    freezes = rig.seen(Type::Freeze);
    before = settled();
  }
  /// Without the streams of the side channel, which begin and end by themselves, also while they are counted.
  Footprint now() const {
    Footprint out = Footprint::now();
    for (const int host : {0, 1}) out.descriptors -= static_cast<int>(EngineDoor::everyStream(rig.engine(host)));
    return out;
  }
  /// As it is five times one after the other.
  Footprint settled() const {
    Footprint out = now();
    int same = 0;
    CHECK(Rig::within(limitNs(), [&] {
      const int last = out.descriptors;
      out = now();
      return (same = out.descriptors == last ? same + 1 : 0) == 5;
    }));
    return out;
  }
  void lift() const {
    for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = UINT64_MAX;
  }
  /// Every byte is right, nothing failed over, nothing was left behind.
  void finish() const {
    CHECK(rig.allDone(limitNs()));
    rig.stop();
    CHECK_EQ(rig.problems(), "");
    CHECK_EQ(rig.seen(Type::Freeze), freezes);
    const Footprint after = settled();
    CHECK_EQ(after.descriptors, before.descriptors);
  }
  Rig& rig;
  const uint64_t messages;
  Captured captured;
  int freezes = 0;
  Footprint before;
};

}  // namespace

/// Who does not know the receiver's id is stopped in the kernel: nothing is read, nothing is parsed.
TEST(net_hostile_stranger_is_stopped_in_the_kernel) {
  const Stranger stranger;
  Rig rig({});
  Traffic traffic(rig);
  const uint64_t before = dropped(rig);
  const uint64_t readBefore = rig.engine(0).droppedByReason().sum() + rig.engine(1).droppedByReason().sum();
  traffic.lift();
  std::mt19937_64 random(3);  // NOLINT(bugprone-random-generator-seed): the same every time
  uint64_t sent = 0;
  for (const Captured::One& one : traffic.captured.all()) {
    std::vector<uint8_t> noise(random() % 1400);
    for (uint8_t& b : noise) b = static_cast<uint8_t>(random());
    std::vector<uint8_t> wrongId = one.bytes;
    wrongId[13 + random() % 8] ^= 0x20;  // Header::to
    std::vector<uint8_t> wrongVersion = one.bytes;
    wrongVersion[4]++;
    for (const auto& bytes : {noise, wrongId, wrongVersion, std::vector<uint8_t>{}}) {
      stranger.send(one.to, bytes);
      sent++;
    }
  }
  CHECK(Rig::within(limitNs(), [&] { return dropped(rig) >= before + sent; }));
  CHECK_EQ(rig.engine(0).droppedByReason().sum() + rig.engine(1).droppedByReason().sum(), readBefore);
  traffic.finish();
}

/// An eavesdropper's means: flipped, cut, lengthened, and the very same again: at once, late, elsewhere, to the other.
TEST(net_hostile_forgeries_and_replays) {
  const Stranger stranger("127.0.1.77");
  Rig rig({});
  Traffic traffic(rig);
  const auto seen = traffic.captured.all();
  const uint64_t before = dropped(rig);
  const uint64_t forged = reason(rig, &Dropped::forged);
  const uint64_t replayed = reason(rig, &Dropped::replayed);
  traffic.lift();
  uint64_t sent = 0, twice = 0;
  bool taken = true;
  std::vector<std::pair<NicAddress, std::vector<uint8_t>>> batch;
  const auto again = [&] {
    for (const auto& [to, bytes] : batch) stranger.send(to, bytes);
  };
  const auto send = [&](const NicAddress& to, const std::vector<uint8_t>& bytes, uint64_t replays = 0) {
    stranger.send(to, bytes);
    batch.emplace_back(to, bytes);
    twice += replays;
    // No more than sockets hold, however long the engine waits for a core.
    if (++sent % 20 != 0) return;
    taken = taken && refused(rig, before + sent, replayed + twice, again);
    batch.clear();
  };
  for (size_t i = 0; i < seen.size(); i++) {
    const Captured::One& one = seen[i];
    send(one.to, forgery(one.bytes, i));
    std::vector<uint8_t> other = one.bytes;
    other.resize(48 + i % (one.bytes.size() - 48));
    send(one.to, other);
    other = one.bytes;
    other.push_back(0);
    send(one.to, other);
    send(one.to, one.bytes, 1);                                                 // again, long after
    send(addressOf(seen, one.to.ip[3] - 1, (one.to.ip[2]) % 3), one.bytes, 1);  // over another NIC
    send(addressOf(seen, one.from, one.to.ip[2] - 1), one.bytes);               // back to who sent it: reflection
  }
  CHECK(taken && refused(rig, before + sent, replayed + twice, again));
  CHECK_EQ(twice, 2 * seen.size());
  // What is cut before its tag could end is no format of ours; all else is refused by its tag. What was sent again may
  // make up the sum while the last of it is on its way.
  CHECK(Rig::within(limitNs(), [&] {
    const uint64_t byTag = reason(rig, &Dropped::forged) - forged;
    return byTag >= 2 * seen.size() && byTag + reason(rig, &Dropped::malformed) >= 3 * seen.size();
  }));
  traffic.finish();
}

/// What came both ways was no replay. When UDP passes again, whatever comes twice is one, as before.
TEST(net_hostile_replays_count_again_when_udp_is_back) {
  const Stranger stranger("127.0.1.78");
  Rig rig({});
  const Traffic traffic(rig);
  const auto each = [&](bool (*is)(Engine&)) { return is(rig.engine(0)) || is(rig.engine(1)); };
  const auto twoWays = [](Engine& engine) { return EngineDoor::streams(engine) > 0; };
  rig.loseUdp = true;
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = 3000;
  CHECK(Rig::within(limitNs(), [&] { return each(twoWays) && rig.delivered() == 9000; }));
  rig.loseUdp = false;
  CHECK(Rig::within(limitNs(), [&] { return !each(twoWays) && !each(EngineDoor::hearsTwice); }));
  const uint64_t replayed = reason(rig, &Dropped::replayed);
  const Captured::One one = traffic.captured.all().front();
  for (int i = 0; i < 10; i++) stranger.send(one.to, one.bytes);
  CHECK(Rig::within(limitNs(), [&] { return reason(rig, &Dropped::replayed) > replayed; }));
  traffic.lift();
  CHECK(rig.allDone(limitNs()));
  rig.stop();
}

/// 50,000 datagrams a second, past the kernel's filter, onto one NIC of each host, for two seconds of traffic.
TEST(net_hostile_flood_changes_nothing) {
  Rig rig({});
  Traffic traffic(rig, 40000 / slowness());
  const auto seen = traffic.captured.all();
  const uint64_t before = dropped(rig);
  {
    std::vector<std::unique_ptr<Flood>> floods;
    for (int host = 0; host < 2; host++) {
      const auto to = [&](const Captured::One& one) { return one.to.ip[3] == host + 1; };
      const auto genuine = std::find_if(seen.begin(), seen.end(), to);
      floods.push_back(std::make_unique<Flood>(addressOf(seen, host, 0), 25000 / slowness(),
                                               [bytes = genuine->bytes](uint64_t i) { return forgery(bytes, i); }));
    }
    pauseMs(500);
    CHECK(Footprint::now().residentKb < traffic.before.residentKb + growthKb());
    traffic.lift();
    pauseMs(2000);
    uint64_t sent = 0;
    for (const auto& flood : floods) flood->stop(), sent += flood->sent();
    CHECK(static_cast<int64_t>(sent) > 20000 / slowness());
    CHECK(Rig::within(limitNs(), [&] { return dropped(rig) >= before + sent; }));
  }
  traffic.finish();
}

/// As many as this machine can send, of full size: the buffer of that socket overflows, genuine datagrams are lost
/// there, and the engine still sees, within its usual time, that another NIC has gone silent.
TEST(net_hostile_flood_does_not_delay_a_failover) {
  Captured captured;
  Rig rig({});
  captured.watch(rig);
  Stream& stream = rig.stream(0, 1, 1, 100000);
  stream.sender->limit = stream.receiver->limit = 300;
  rig.start();
  CHECK(Rig::within(limitNs(), [&] { return rig.delivered() == 300; }));
  rig.link(0, 2, false), rig.link(0, 2, true);  // said on all rails: now the flood knows every address
  pauseMs(700);
  const auto seen = captured.all();
  std::vector<std::unique_ptr<Flood>> floods;
  for (int host = 0; host < 2; host++) {
    const auto to = [&](const Captured::One& one) { return one.to.ip[3] == host + 1; };
    std::vector<uint8_t> big = std::find_if(seen.begin(), seen.end(), to)->bytes;
    big.resize(1400);
    floods.push_back(std::make_unique<Flood>(addressOf(seen, host, 0), floodRate(), [big](uint64_t) { return big; }));
  }
  stream.sender->limit = stream.receiver->limit = UINT64_MAX;
  CHECK(Rig::within(limitNs(), [&] { return rig.engine(0).droppedByReason().forged > 1000; }));
  const int freezes = rig.seen(Type::Freeze);
  const int64_t cutNs = nowNs();
  rig.fabric.cut({0, 1}, Cut::Hold);
  CHECK(Rig::within(limitNs(), [&] { return rig.seen(Type::Freeze) > freezes; }));
  CHECK(nowNs() - cutNs < msToNs(1000) * slowness());  // about 40 ms without a flood
  const uint64_t through = rig.delivered();
  CHECK(Rig::within(limitNs(), [&] { return rig.delivered() > through + 300; }));
  floods.clear();
  stream.sender->limit = stream.receiver->limit = stream.sender->done() + 100;
  rig.stop();
  CHECK(rig.fabric.violations().empty());
}

/// Nobody but the peer's own kernel can say that its process is gone.
TEST(net_hostile_forged_icmp_kills_nobody) {
  Rig rig({});
  Traffic traffic(rig);
  const auto seen = traffic.captured.all();
  rig.pause(1, true);  // a late peer: it owes us something, and is not heard
  traffic.lift();
  pauseMs(200);
  bool possible = true;
  for (int i = 0; i < 60 && possible; i++) {
    const int rail = i % 3;
    std::vector<uint8_t> quote;
    if (i % 2 != 0) quote = forgery(seen[static_cast<size_t>(i)].bytes, 7);
    possible = forgeRefusal(addressOf(seen, 0, rail), addressOf(seen, 1, rail), quote);
    pauseMs(5);
  }
  if (!possible) fprintf(stderr, "skipped: raw sockets need a privilege\n");
  if (possible) CHECK(Rig::within(limitNs(), [&] { return reason(rig, &Dropped::refusals) >= 50; }));
  rig.pause(1, false);
  traffic.finish();
}

/// The listener's own key, as every process that connects to it has it, seals nothing.
TEST(net_hostile_pairs_have_keys_of_their_own) {
  const Key listener = randomKey();
  CHECK(pairKey(listener, 1, 2) != listener);
  CHECK(pairKey(listener, 1, 2) != pairKey(listener, 2, 1));
  CHECK(pairKey(listener, 1, 2) != pairKey(listener, 3, 2));
  CHECK(pairKey(listener, 1, 2) == pairKey(listener, 1, 2));
  const Key pair = pairKey(listener, 1, 2);
  CHECK(laneSecret(pair, 1, 1) != laneSecret(pair, 1, 2));
  CHECK(laneSecret(pair, 1, 1) != laneSecret(pair, 2, 1));
  CHECK(laneSecret(pair, 1, 1) != laneSecret(listener, 1, 1));

  Rig rig({});
  Traffic traffic(rig);
  InnerHandle handle{};
  void* listen = nullptr;
  CHECK_EQ(rig.engine(1).listen(rig.context(1), 0, handle.data(), &listen), ncclSuccess);
  ConnectHandle known;
  CHECK(readHandle(handle.data(), known));
  // Everything is right but the key: a connector that was never told of the pair's.
  Header header;
  header.from = 4711, header.to = known.process, header.seq = 1;
  Hello hello;
  hello.connection = 1, hello.listen = known.listen;
  const auto attempt = [&](const Key& key) {
    Datagram d(header);
    CHECK(d.add(hello));
    Stranger().send(addressOf(traffic.captured.all(), 1, 0), d.seal(key));
  };
  const uint64_t forged = reason(rig, &Dropped::forged);
  attempt(known.key);
  attempt(pairKey(known.key, known.process, 4711));
  CHECK(Rig::within(limitNs(), [&] { return reason(rig, &Dropped::forged) == forged + 2; }));
  rig.engine(1).closeListen(listen);
  traffic.lift();
  traffic.finish();
}

/// Neither the journal nor NCCL's log ever holds a key.
TEST(net_hostile_no_key_is_written) {
  const int fd = memfd_create("events", MFD_CLOEXEC);
  ConnectHandle known;
  std::string warned;
  {
    Fabric fabric(2, true, 1);
    Config config;
    config.holdNs = msToNs(50);
    config.eventFile = "/proc/self/fd/" + std::to_string(fd);
    LocalNic nic{"lo", 3000000, {}};
    nic.address.family = AF_INET, nic.address.prefix = 24, nic.address.ip = {127, 0, 9, 1};
    Engine engine(config, fabric.inner(), {nic}, [&](const std::string& text) { warned += text; });
    InnerHandle handle{};
    void* listen = nullptr;
    CHECK_EQ(engine.listen(fabric.context(0), 0, handle.data(), &listen), ncclSuccess);
    CHECK(readHandle(handle.data(), known));
    known.nics[0].port = 9;  // nobody there
    writeHandle(known, handle.data());
    void* comm = nullptr;
    CHECK(Rig::within(limitNs(),
                      [&] { return engine.connect(fabric.context(0), 0, handle.data(), &comm) != ncclSuccess; }));
    engine.closeListen(listen);
  }
  std::string text(100000, 0);
  text.resize(static_cast<size_t>(pread(fd, text.data(), text.size(), 0)));
  close(fd);
  text += warned;
  CHECK(text.find("net_end") != std::string::npos && text.find("failed") != std::string::npos);
  std::string hex;
  for (const uint8_t b : known.key) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", b);
    hex += digits;
  }
  const std::string raw(known.key.begin(), known.key.end());
  for (size_t i = 0; i + 4 <= raw.size(); i++) CHECK(text.find(raw.substr(i, 4)) == std::string::npos);
  for (size_t i = 0; i + 8 <= hex.size(); i += 2) CHECK(text.find(hex.substr(i, 8)) == std::string::npos);
}
