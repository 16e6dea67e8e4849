// The small parts: checksum, replay window, path health, handles, posted numbers, configuration, event lines.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/siphash.h"
#include "check.h"
#include "engine/config.h"
#include "lanes/lane.h"
#include "paths/path.h"
#include "paths/peer.h"
#include "record/events.h"
#include "wire/handle.h"

using namespace r2cc;

namespace {

std::vector<uint8_t> counting(size_t size) {
  std::vector<uint8_t> out(size);
  for (size_t i = 0; i < size; i++) out[i] = static_cast<uint8_t>(i);
  return out;
}

std::string eventLine(const std::function<void(EventLog&)>& write) {
  const int fd = memfd_create("events", MFD_CLOEXEC);
  {
    EventLog log("/proc/self/fd/" + std::to_string(fd));
    CHECK(log.enabled());
    write(log);
  }
  char text[4096];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  close(fd);
  return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
}

}  // namespace

// From appendix A of the SipHash paper (key 00..0f, input 00..0e), and the first of its reference implementation's
// vectors (inputs of growing length).
TEST(net_siphash_reference) {
  Key key{};
  for (size_t i = 0; i < key.size(); i++) key[i] = static_cast<uint8_t>(i);
  CHECK_EQ(sipHash(key, counting(15).data(), 15), 0xa129ca6149be45e5U);
  static constexpr uint64_t kFirst[] = {0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d};
  for (size_t size = 0; size < std::size(kFirst); size++)
    CHECK_EQ(sipHash(key, counting(size).data(), size), kFirst[size]);
}

// The first of the reference implementation's vectors for 128 bits, and as OpenSSL computes them.
TEST(net_siphash_128_reference) {
  Key key{};
  for (size_t i = 0; i < key.size(); i++) key[i] = static_cast<uint8_t>(i);
  const auto hex = [&](size_t size) {
    std::string out;
    for (const uint8_t b : sipTag(key, counting(size).data(), size)) {
      char digits[3];
      snprintf(digits, sizeof(digits), "%02x", b);
      out += digits;
    }
    return out;
  };
  CHECK_EQ(hex(0), "a3817f04ba25a8e66df67214c7550293");
  CHECK_EQ(hex(1), "da87c1d86b99af44347659119b22fc45");
  CHECK_EQ(hex(2), "8177228da4a45dc7fca38bdef60affe4");
  CHECK_EQ(hex(15), "5493e99933b0a8117e08ec0f97cfc3d9");
}

TEST(net_tags_are_compared_whole) {
  const Tag tag = sipTag(randomKey(), counting(9).data(), 9);
  CHECK(sameTag(tag, tag.data()));
  for (size_t bit = 0; bit < tag.size() * 8; bit++) {
    Tag other = tag;
    other[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    CHECK(!sameTag(tag, other.data()));
  }
}

TEST(net_siphash_depends_on_every_bit) {
  Key key = randomKey();
  std::vector<uint8_t> data = counting(63);
  const uint64_t plain = sipHash(key, data.data(), data.size());
  for (size_t bit = 0; bit < data.size() * 8; bit++) {
    data[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    CHECK(sipHash(key, data.data(), data.size()) != plain);
    data[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
  }
  for (size_t bit = 0; bit < key.size() * 8; bit++) {
    key[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    CHECK(sipHash(key, data.data(), data.size()) != plain);
    key[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
  }
}

TEST(net_replay_window) {
  ReplayWindow window;
  CHECK(window.accept(1));
  CHECK(!window.accept(1));
  CHECK(window.accept(5));
  CHECK(window.accept(3));  // late over another NIC
  CHECK(!window.accept(3) && !window.accept(5));
  CHECK(window.accept(1028));
  CHECK(window.accept(6));   // 1022 back: still inside
  CHECK(!window.accept(4));  // 1024 back: too old to know
  CHECK(window.accept(1000000));
  CHECK(!window.accept(1028));
  CHECK(window.accept(UINT64_MAX));
  CHECK(!window.accept(UINT64_MAX));
  CHECK(!window.accept(0));
}

TEST(net_replay_window_tells_what_was_sent_last) {
  ReplayWindow window;
  CHECK(window.accept(5) && window.isNewest(5));
  CHECK(window.accept(3) && !window.isNewest(3));  // late: its sender may have ended since
  CHECK(window.isNewest(5));
  CHECK(window.accept(6) && window.isNewest(6) && !window.isNewest(5));
}

TEST(net_replay_window_takes_each_once) {
  ReplayWindow window;
  std::vector<int> taken(5000, 0);
  uint64_t random = 7;
  for (int i = 0; i < 200000; i++) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const uint64_t base = static_cast<uint64_t>(i) / 42;
    const uint64_t seq = 1 + base + (random >> 33) % 200;
    if (seq < taken.size() && window.accept(seq)) taken[seq]++;
  }
  for (const int times : taken) CHECK(times <= 1);
}

TEST(net_handle_round_trip) {
  ConnectHandle handle;
  handle.process = UINT64_MAX - 1, handle.listen = 0x0102030405060708, handle.key = randomKey(), handle.dev = 31;
  for (size_t i = 0; i < ConnectHandle::kAddresses; i++) {
    NicAddress nic;
    nic.dev = static_cast<uint8_t>(i), nic.family = AF_INET6, nic.prefix = 64, nic.port = 65535;
    nic.ip.fill(static_cast<uint8_t>(0xf0 + i));
    handle.nics.push_back(nic);
  }
  std::vector<uint8_t> bytes(NCCL_NET_HANDLE_MAXSIZE + 16, 0x5a);
  writeHandle(handle, bytes.data());
  for (size_t i = NCCL_NET_HANDLE_MAXSIZE; i < bytes.size(); i++) CHECK_EQ(bytes[i], 0x5a);
  for (size_t i = kHandleStateAt; i < NCCL_NET_HANDLE_MAXSIZE; i++) CHECK_EQ(bytes[i], 0);  // room for connect()
  ConnectHandle out;
  CHECK(readHandle(bytes.data(), out));
  CHECK(out.process == handle.process && out.listen == handle.listen && out.key == handle.key && out.dev == handle.dev);
  CHECK_EQ(out.nics.size(), handle.nics.size());
  CHECK(out.nics[2].sameSocket(handle.nics[2]));
}

TEST(net_handle_of_another_library_is_refused) {
  std::vector<uint8_t> bytes(NCCL_NET_HANDLE_MAXSIZE);
  ConnectHandle out;
  CHECK(!readHandle(bytes.data(), out));
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  CHECK(!readHandle(bytes.data(), out));
  writeHandle({}, bytes.data());
  CHECK(readHandle(bytes.data(), out));
  bytes[4]++;  // another version
  CHECK(!readHandle(bytes.data(), out));
  bytes[4]--;
  bytes[4 + 1 + 8 + 8 + 16 + 1] = 200;  // more addresses than fit
  CHECK(!readHandle(bytes.data(), out));
}

TEST(net_posted_numbers_ascend) {
  PostedFifo fifo;
  CHECK(fifo.empty());
  CHECK(fifo.push(0));
  CHECK(!fifo.push(0));
  CHECK(fifo.push(7));
  CHECK(!fifo.push(3));
  CHECK_EQ(fifo.front(), 0u);
  fifo.pop();
  CHECK_EQ(fifo.front(), 7u);
  fifo.pop();
  CHECK(fifo.empty());
  CHECK(!fifo.push(7));  // also when it is empty: the lane has seen 7
  for (uint64_t i = 0; i < NCCL_NET_MAX_REQUESTS; i++) CHECK(fifo.push(8 + i));
  CHECK(!fifo.push(1000));
  fifo.pop();
  CHECK(fifo.push(1000));
  for (uint64_t i = 1; i < NCCL_NET_MAX_REQUESTS; i++, fifo.pop()) CHECK_EQ(fifo.front(), 8 + i);
  CHECK_EQ(fifo.front(), 1000u);
  fifo.pop();
  CHECK(fifo.empty() && fifo.push(1001) && fifo.front() == 1001);
}

TEST(net_config_from_environment) {
  const char* const names[] = {"R2CC_MODE", "R2CC_HOLD_MS", "R2CC_EVENT_FILE", "R2CC_SIDE_IFNAME", "R2CC_TOPO_FILE"};
  for (const char* name : names) unsetenv(name);
  CHECK_EQ(Config::fromEnvironment().mode, 1);
  CHECK_EQ(Config::fromEnvironment().holdNs, msToNs(60000));
  CHECK_EQ(Config::fromEnvironment().eventFile, "");
  setenv("R2CC_MODE", "0", 1);
  setenv("R2CC_HOLD_MS", "250", 1);
  setenv("R2CC_EVENT_FILE", "/proc/self/fd/1", 1);
  setenv("R2CC_SIDE_IFNAME", "mgmt0", 1);
  const Config set = Config::fromEnvironment();
  setenv("R2CC_HOLD_MS", "10000000000000", 1);  // meant to be for ever
  CHECK_EQ(Config::fromEnvironment().holdNs, msToNs(int64_t{365} * 24 * 3600 * 1000));
  CHECK_EQ(set.mode, 0);
  CHECK_EQ(set.holdNs, msToNs(250));
  CHECK_EQ(set.eventFile, "/proc/self/fd/1");
  CHECK_EQ(set.sideInterface, "mgmt0");
  CHECK_EQ(set.topologyFile, "");
  setenv("R2CC_TOPO_FILE", "/t.json", 1);
  CHECK_EQ(Config::fromEnvironment().topologyFile, "/t.json");
  for (const char* bad : {"", "x", "12x", "-5"}) {
    setenv("R2CC_HOLD_MS", bad, 1);
    CHECK_EQ(Config::fromEnvironment().holdNs, msToNs(60000));
  }
  for (const char* name : names) unsetenv(name);
}

TEST(net_config_folders_stay_where_they_are_when_the_program_goes_elsewhere) {
  const auto here = std::filesystem::current_path();
  for (const char* name : {"R2CC_STATUS_DIR", "R2CC_CONTROL_DIR"}) {
    const auto found = [name](const char* given) {
      setenv(name, given, 1);
      const Config config = Config::fromEnvironment();
      unsetenv(name);
      return name == std::string("R2CC_STATUS_DIR") ? config.statusDir : config.controlDir;
    };
    CHECK_EQ(found(""), "");
    CHECK_EQ(found("/run/x"), "/run/x");
    CHECK_EQ(found("sub/x"), (here / "sub/x").string());
    CHECK(std::filesystem::path(found(".")) / "x" == here / "x");
  }
}

TEST(net_event_lines_are_json) {
  const std::string line = eventLine([](EventLog& log) {
    log.line("path").add("epoch", int64_t{-7}).add("cause", std::string("a \"b\" \\ \n\t\x01 \x1f \xc3\xa4"));
  });
  const std::string expected = R"(,"event":"path","epoch":-7,"cause":"a \"b\" \\ \u000a\u0009\u0001 \u001f )";
  CHECK(line.rfind("{\"t_ns\":", 0) == 0);
  CHECK(line.find(expected + "\xc3\xa4\"}\n") != std::string::npos);
}

TEST(net_events_to_nowhere) {
  EventLog none("");
  CHECK(!none.enabled());
  none.line("nic").add("x", int64_t{1}).add("y", std::string("z"));
  const EventLog bad("/nonexistent/directory/file");
  CHECK(!bad.enabled());
}
