// The wire: every message there and back; nothing that comes from the network can do harm.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <utility>

#include "check.h"
#include "rig/door.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

NicAddress someNic(uint8_t n) {
  NicAddress nic;
  nic.dev = n, nic.flags = kSideOnly, nic.family = AF_INET6, nic.prefix = 64,
  nic.port = static_cast<uint16_t>(1000 + n);
  nic.ip.fill(n);
  return nic;
}

template <class M>
std::vector<uint8_t> encode(const M& message) {
  std::vector<uint8_t> out;
  Writer w(out);
  w(message);
  return out;
}

/// What is written and read is written the same again, and any shorter input is refused.
template <class M>
void roundTrip(const M& message) {
  const std::vector<uint8_t> bytes = encode(message);
  M copy;
  Reader r(bytes.data(), bytes.size());
  r(copy);
  CHECK(r.ok());
  CHECK_EQ(r.left(), 0u);
  CHECK(encode(copy) == bytes);
  for (size_t size = 0; size < bytes.size(); size++) {
    M shorter;
    Reader cut(bytes.data(), size);
    cut(shorter);
    CHECK(!cut.ok());
  }
}

Header someHeader() {
  Header h;
  h.from = 1, h.to = 2, h.seq = 3, h.keyOfSender = 1, h.nicsUp = 5, h.nicsVersion = 6, h.nicsHeard = 7;
  return h;
}

/// One datagram with every kind of message.
std::vector<uint8_t> everything(const Key& key) {
  Datagram d(someHeader());
  Hello hello{1, 2, 3, {someNic(1), someNic(2)}};
  CHECK(d.add(hello) && d.add(Welcome{1, 1, {someNic(3)}}) && d.add(OpenLane{1, 2, 3, 4}) && d.add(LaneHandle{}));
  CHECK(d.add(LaneUp{1, 2}) && d.add(CloseLane{1, 2}) && d.add(Suspect{1, 2, 3}) &&
        d.add(Freeze{1, 2, 3, 4, 5, {3, 4}}));
  CHECK(d.add(Fenced{1, 2, 1, 4, 5, 6, 7}) && d.add(Switch{1, 2, 3, {{4, 5}, {6, 7}}}) && d.add(Switched{1, 2, 3}) &&
        d.add(Ack{1, 2}));
  CHECK(d.add(Ping{1}) && d.add(Pong{1}) && d.add(Bye{1, 0, 2}) && d.add(PathDead{1, 2}));
  return d.seal(key);
}

/// Reads a datagram as the engine does, every message of it.
void consume(const std::vector<uint8_t>& bytes, const Key& key) {
  const auto parsed = Parsed::open(bytes.data(), bytes.size());
  if (!parsed) return;
  (void)parsed->verify(key);
  (void)parsed->forEach([](Type type, Reader& reader) {
    const auto take = [&](auto message) { reader(message); };
    switch (type) {
      case Type::Hello:
        return take(Hello{});
      case Type::Welcome:
        return take(Welcome{});
      case Type::LaneHandle:
        return take(LaneHandle{});
      case Type::Fenced:
        return take(Fenced{});
      case Type::Switch:
        return take(Switch{});
      default:
        return take(Freeze{});
    }
  });
}

/// A socket of a stranger on the subnet of rail 0.
class Stranger {
 public:
  Stranger() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  ~Stranger() { close(fd_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  void send(const NicAddress& to, const std::vector<uint8_t>& bytes) const {
    const sockaddr_storage address = to.sockaddr();
    (void)sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in));
  }

 private:
  const int fd_;
};

}  // namespace

TEST(net_wire_round_trips) {
  roundTrip(Hello{1, 2, 3, {someNic(1), someNic(255)}});
  roundTrip(Welcome{UINT64_MAX, 1, {}});
  roundTrip(OpenLane{1, UINT32_MAX, 3, 4});
  LaneHandle handle{1, 2, 1, {}};
  handle.handle.fill(0xab);
  roundTrip(handle);
  roundTrip(LaneUp{1, 2});
  roundTrip(CloseLane{1, 2});
  roundTrip(Suspect{1, 2, 3});
  roundTrip(Freeze{1, 2, 3, UINT64_MAX, 7, {1, UINT32_MAX}});
  roundTrip(Fenced{1, 2, 1, 4, UINT32_MAX, 5, UINT64_MAX});
  roundTrip(Switch{1, 2, 3, {{4, 5}, {6, 7}}, 8, 9});
  roundTrip(Switched{1, 2, 3});
  roundTrip(Ack{1, 2});
  roundTrip(Ping{1});
  roundTrip(Pong{UINT32_MAX});
  roundTrip(Bye{1, 1, 2});
  roundTrip(PathDead{1, 255});
  roundTrip(LookAt{31});
  roundTrip(Slow{31});
  roundTrip(PathHealth{1, 255, 60});
  roundTrip(someHeader());
}

TEST(net_wire_values_survive) {
  const std::vector<uint8_t> bytes = encode(Fenced{0x1122334455667788, 2, 1, 0x99aabbccddeeff00, 0xdeadbeef});
  Fenced out;
  Reader r(bytes.data(), bytes.size());
  r(out);
  CHECK(out.connection == 0x1122334455667788 && out.epoch == 2 && out.laneUsable == 1);
  CHECK(out.delivered == 0x99aabbccddeeff00 && out.deliveredMask == 0xdeadbeef);
  CHECK_EQ(bytes[0], 0x88);  // little endian, whatever the host is
}

TEST(net_wire_datagram) {
  const Key key = randomKey();
  const std::vector<uint8_t> bytes = everything(key);
  const auto parsed = Parsed::open(bytes.data(), bytes.size());
  CHECK(parsed.has_value());
  if (!parsed) return;
  CHECK(parsed->verify(key));
  CHECK(!parsed->verify(randomKey()));
  CHECK_EQ(parsed->header().seq, 3u);
  int messages = 0;
  CHECK(parsed->forEach([&](Type, Reader&) { messages++; }));
  CHECK_EQ(messages, 16);
}

TEST(net_wire_datagram_is_bounded) {
  Datagram d(someHeader());
  int fitted = 0;
  while (d.add(LaneHandle{})) fitted++;
  CHECK(fitted > 5);
  CHECK(d.seal(randomKey()).size() <= kMaxDatagram);
  Datagram hello(someHeader());
  Hello most{};
  for (size_t i = 0; i < kMaxNics; i++) most.nics.push_back(someNic(static_cast<uint8_t>(i)));
  CHECK(hello.add(most));  // the longest message fits
}

TEST(net_wire_every_flipped_bit_is_noticed) {
  const Key key = randomKey();
  std::vector<uint8_t> bytes = everything(key);
  for (size_t bit = 0; bit < bytes.size() * 8; bit++) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    const auto parsed = Parsed::open(bytes.data(), bytes.size());
    CHECK(!parsed || !parsed->verify(key));
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
  }
}

TEST(net_wire_rubbish_does_no_harm) {
  const Key key = randomKey();
  const std::vector<uint8_t> good = everything(key);
  for (size_t size = 0; size < good.size(); size++) {
    // A copy of its own: what is read past the end is seen by the sanitizer.
    consume({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, key);
  }
  std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): the same every time
  for (int i = 0; i < 20000; i++) {
    std::vector<uint8_t> bytes = good;
    for (uint64_t n = random() % 8 + 1; n > 0; n--) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    consume(bytes, key);
  }
  for (int i = 0; i < 20000; i++) {
    std::vector<uint8_t> bytes(random() % 200);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    consume(bytes, key);
  }
  CHECK(Parsed::open(good.data(), good.size()).has_value());
}

TEST(net_subnets) {
  NicAddress a;
  a.family = AF_INET, a.prefix = 20, a.ip = {10, 1, 16, 1};
  NicAddress b = a;
  b.ip = {10, 1, 31, 200};
  CHECK(a.sameSubnet(b));
  b.ip = {10, 1, 32, 1};
  CHECK(!a.sameSubnet(b));
  b = a;
  b.prefix = 24;
  CHECK(!a.sameSubnet(b));
  b = a;
  b.family = AF_INET6;
  CHECK(!a.sameSubnet(b));
}

/// What strangers send to a running engine is dropped and counted, and changes nothing.
namespace {

constexpr int64_t kLimitNs = msToNs(20000);

/// Of so many that are said, every one. Where a busy engine opened a second way, what comes twice is counted when that
/// has ended: then once more.
bool dropsAll(Rig& rig, uint64_t count, const std::function<void()>& say) {
  const auto dropped = [&] { return rig.engine(0).dropped() + rig.engine(1).dropped(); };
  const auto twoWays = [&] { return EngineDoor::hearsTwice(rig.engine(0)) || EngineDoor::hearsTwice(rig.engine(1)); };
  for (int tries = 0; tries < 5; tries++) {
    if (!Rig::within(kLimitNs, [&] { return !twoWays(); })) return false;
    const uint64_t before = dropped();
    say();
    bool uncounted = false;
    const auto counted = [&] { return dropped() >= before + count; };
    const bool over = Rig::within(kLimitNs, [&] { return (uncounted = uncounted || twoWays()) || counted(); });
    if (over && counted()) return true;
    if (!uncounted) return false;
  }
  return false;
}

}  // namespace

TEST(net_strangers_are_ignored) {
  std::mutex mutex;
  std::vector<std::pair<NicAddress, std::vector<uint8_t>>> heard;
  Rig rig({});
  rig.spy = [&](int, const NicAddress& to, const std::vector<uint8_t>& bytes) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (heard.size() < 200) heard.emplace_back(to, bytes);
  };
  rig.stream(0, 1, 0, 300);
  rig.start();
  CHECK(Rig::within(msToNs(10000), [&] { return rig.delivered() == 300; }));
  const Stranger stranger;
  std::mt19937_64 random(2);  // NOLINT(bugprone-random-generator-seed): the same every time
  const auto copies = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return heard;
  }();
  const auto say = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
      std::vector<uint8_t> changed = copies[i].second;
      stranger.send(copies[i].first, changed);     // the very same again: a replay
      changed[random() % changed.size()] ^= 0x10;  // a forgery
      stranger.send(copies[i].first, changed);
      changed.resize(random() % changed.size());
      stranger.send(copies[i].first, changed);
    }
  };
  for (size_t i = 0; i < copies.size(); i += 10) {  // no more at once than sockets hold
    CHECK(dropsAll(rig, 3 * (std::min(i + 10, copies.size()) - i), [&] { say(i, std::min(i + 10, copies.size())); }));
  }
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}
