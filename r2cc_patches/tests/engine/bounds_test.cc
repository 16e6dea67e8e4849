// What a peer that has the key and is broken can make an engine hold: this much and no more.
#include <chrono>

#include "check.h"
#include "rig/door.h"
#include "rig/fabric/fake_inner.h"
#include "wire/keys.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr uint64_t kBroken = 0xb0b0b0b0b0b0b0b0;

NicAddress someNic(uint8_t dev, uint16_t port) {
  NicAddress nic;
  nic.dev = dev, nic.family = AF_INET, nic.prefix = 24, nic.port = port;
  nic.ip = {127, 0, 77, 2};
  return nic;
}

/// An engine with one listen, and a peer that says what it likes.
struct Victim {
  explicit Victim(bool ack = true) : fabric(2, ack, 1) {
    LocalNic nic{"lo", 4000000, someNic(0, 0)};
    nic.address.ip[3] = 1;
    Config config;
    config.holdNs = msToNs(60000);
    engine = std::make_unique<Engine>(config, fabric.inner(), std::vector<LocalNic>{nic}, [](const std::string&) {});
    InnerHandle handle{};
    CHECK_EQ(engine->listen(fabric.context(0), 0, handle.data(), &listen), ncclSuccess);
    CHECK(readHandle(handle.data(), known));
  }
  template <class M>
  void say(const M& message, uint64_t from = kBroken) {
    Header header;
    header.from = from, header.to = known.process, header.seq = ++seq;
    Datagram d(header);
    CHECK(d.add(message));
    EngineDoor::datagram(*engine, 0, someNic(0, 1), d.seal(pairKey(known.key, from, known.process)));
  }
  Hello hello(uint64_t connection) const {
    Hello out;
    out.connection = connection, out.listen = known.listen, out.nics = {someNic(0, 1)};
    return out;
  }
  Fabric fabric;
  std::unique_ptr<Engine> engine;
  void* listen = nullptr;
  ConnectHandle known;
  uint64_t seq = 0;
};

}  // namespace

TEST(net_bounds_connections_of_a_listen) {
  Victim victim;
  for (uint64_t connection = 1; connection <= 500; connection++) victim.say(victim.hello(connection));
  const EngineDoor::Held held = EngineDoor::held(*victim.engine);
  CHECK_EQ(held.peers, 1u);
  CHECK_EQ(held.mostArrived, 64u);
  CHECK_EQ(held.connections, 64u);
}

TEST(net_bounds_lanes_of_a_connection) {
  Victim victim;
  victim.say(victim.hello(1));
  for (uint32_t lane = 1; lane <= 500; lane++) {
    OpenLane open;
    open.connection = 1, open.lane = lane;
    victim.say(open);
  }
  CHECK_EQ(victim.fabric.counts().listens, static_cast<int>(kMaxLanes));
}

TEST(net_bounds_nics_of_a_peer) {
  Victim victim;
  for (uint16_t port = 1; port <= 400; port++) {
    Hello hello = victim.hello(1);
    hello.nics = {someNic(static_cast<uint8_t>(port % 40), port)};
    victim.say(hello);
  }
  CHECK_EQ(EngineDoor::held(*victim.engine).mostNics, kMaxNics);
  CHECK_EQ(EngineDoor::held(*victim.engine).mostPaths, kMaxNics);
}

/// A device number is a bit in a mask of 32, and a family decides how many bytes of an address are read.
TEST(net_bounds_nics_that_cannot_be) {
  Victim victim;
  Hello hello = victim.hello(1);
  hello.nics = {someNic(32, 1), someNic(255, 2), someNic(0, 3)};
  hello.nics[2].family = 99;
  victim.say(hello);
  CHECK_EQ(EngineDoor::held(*victim.engine).peers, 1u);
  CHECK_EQ(EngineDoor::held(*victim.engine).mostNics, 0u);
}

/// A process is remembered from its first Hello on; whatever else it says before is forgotten.
TEST(net_bounds_no_peer_without_a_hello) {
  Victim victim;
  for (uint64_t from = 1; from <= 1000; from++) victim.say(Ping{}, from);
  CHECK_EQ(EngineDoor::held(*victim.engine).peers, 0u);
  CHECK_EQ(victim.engine->droppedByReason().stranger, 1000u);
}

/// A "no such port" that quotes us counts; one that quotes what was sent before the peer was last heard does not.
TEST(net_bounds_only_a_fresh_refusal_counts) {  // NOLINT(readability-function-size): one story, told once
  std::mutex mutex;
  std::vector<std::vector<uint8_t>> sent;
  Fabric fabric(2, true, 1);
  LocalNic nic{"lo", 4000001, someNic(0, 0)};
  nic.address.ip[3] = 1;
  Config config;
  config.holdNs = msToNs(60000);
  Engine engine(
      config, fabric.inner(), {nic}, [](const std::string&) {},
      [&](size_t, const NicAddress&, const std::vector<uint8_t>& bytes, SideChannel::Way) {
        const std::lock_guard<std::mutex> lock(mutex);
        sent.push_back(bytes);
        return false;
      });
  ConnectHandle to;
  to.process = kBroken, to.listen = 1, to.key = randomKey(), to.nics = {someNic(0, 9)};
  InnerHandle handle{};
  writeHandle(to, handle.data());
  void* comm = nullptr;
  const auto connects = [&] { return engine.connect(fabric.context(0), 0, handle.data(), &comm) == ncclSuccess; };
  CHECK(connects());
  const auto within = [&](int64_t limitNs, auto what) {
    const int64_t until = nowNs() + limitNs;
    while (!what() && nowNs() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return what();
  };
  const auto count = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return sent.size();
  };
  CHECK(within(msToNs(5000), [&] { return count() >= 3; }));
  const auto quotes = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return sent;
  }();
  // The peer is heard after these were sent: they are stale.
  const auto parsed = Parsed::open(quotes[0].data(), quotes[0].size());
  CHECK(parsed.has_value());
  if (!parsed) return;
  Header header;
  header.from = kBroken, header.to = parsed->header().from, header.seq = 1, header.keyOfSender = 1;
  Datagram d(header);
  CHECK(d.add(Ping{}));
  EngineDoor::datagram(engine, 0, someNic(0, 9), d.seal(pairKey(to.key, header.to, kBroken)));
  for (int i = 0; i < 10; i++) EngineDoor::refused(engine, 0, someNic(0, 9), quotes[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(connects());
  // Those after it are answers to something new.
  const size_t before = count();
  CHECK(within(msToNs(5000), [&] { return count() > before; }));
  std::vector<uint8_t> fresh;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    fresh = sent.back();
  }
  std::vector<uint8_t> forged = fresh;
  forged.back() ^= 1;
  for (int i = 0; i < 10; i++) EngineDoor::refused(engine, 0, someNic(0, 9), forged);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(connects());
  CHECK_EQ(engine.droppedByReason().refusals, 10u);
  for (int i = 0; i < 10; i++) EngineDoor::refused(engine, 0, someNic(0, 9), fresh);
  CHECK(within(msToNs(5000), [&] { return !connects(); }));
}

/// Where no data may go there is nothing to listen on, whatever a peer asks for.
TEST(net_bounds_no_lane_on_a_side_only_path) {
  Victim victim;
  Hello hello = victim.hello(1);
  hello.nics[0].flags = kSideOnly;
  victim.say(hello);
  OpenLane open;
  open.connection = 1, open.lane = 1;
  victim.say(open);
  CHECK_EQ(EngineDoor::held(*victim.engine).mostPaths, 1u);
  CHECK_EQ(victim.fabric.counts().listens, 0);
}
