// With R2CC_TLS=1 nobody on the way reads what the ranks agree about, and all else is as without.
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "agree/net/channel.h"
#include "agree/world/proxy.h"
#include "agree/world/world.h"
#include "check.h"

using namespace r2cc;
using namespace r2cc::agree;
using namespace r2cc::agree::test;

namespace {

const std::string kWord = "one NIC of rank 1 is away";

std::shared_ptr<const Encryption> encryptionWith(uint8_t first, uint32_t check = 0) {
  auto out = std::make_shared<Encryption>();
  out->secret[0] = first;
  out->check = check;
  return out;
}

bool holds(const std::vector<uint8_t>& bytes, const std::vector<uint8_t>& part) {
  return std::search(bytes.begin(), bytes.end(), part.begin(), part.end()) != bytes.end();
}

std::vector<uint8_t> bytesOf(const std::string& text) { return {text.begin(), text.end()}; }

/// What went each way between two ranks that took a report, lost their connection and took another.
struct Heard {
  std::mutex mutex;
  std::vector<uint8_t> up, down;
  int connections = 0;
};

void switchTwice(const std::shared_ptr<const Encryption>& encryption, Heard& heard) {
  Proxy proxy;
  proxy.spoil = [&heard](bool up, std::vector<uint8_t>& bytes) {
    const std::lock_guard lock(heard.mutex);
    std::vector<uint8_t>& to = up ? heard.up : heard.down;
    to.insert(to.end(), bytes.begin(), bytes.end());
  };
  Setup setup(2);
  setup.bend = [&proxy](Card& root) { proxy.bend(root); };
  setup.tune = [&encryption](Options& options) {
    options.encryption = encryption;
    options.quiet = Ms(20);
  };
  World world(setup);
  world[1].report(kWord);
  world.enterUntil(1);
  proxy.cut();
  world[1].report(kWord + ", again");
  world.enterUntil(2);
  CHECK(world.consistent());
  CHECK_EQ(world.seen(0).back(), world.seen(1).back());
  CHECK_EQ(world[0].stats().refused, 0U);
  heard.connections = proxy.passed;
}

/// The frames of a recorded direction: whether behind their lengths lies what a frame in the clear has there.
size_t plainFrames(const std::vector<uint8_t>& bytes, size_t greeting) {
  size_t plain = 0;
  for (size_t at = greeting; at + kLengthBytes <= bytes.size();) {
    uint32_t length = 0;
    Reader r(bytes.data() + at, kLengthBytes);
    r(length);
    if (length < kLeastFrame || length > kMaxDown + kLeastFrame || at + kLengthBytes + length > bytes.size()) break;
    uint64_t seq = 0, ack = 0;
    Reader head(bytes.data() + at + kLengthBytes, 16);
    head(seq), head(ack);
    // Both count from 1 on, and no test sends a million.
    if (seq < 1000000 && ack < 1000000 && decode(bytes.data() + at + kLengthBytes + 16, length - kLeastFrame)) plain++;
    at += kLengthBytes + length;
  }
  return plain;
}

/// What two ranks say that differ in this.
std::vector<std::string> refusals(const std::shared_ptr<const Encryption>& one,
                                  const std::shared_ptr<const Encryption>& other) {
  Exchange exchange(2);
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; rank++) {
    threads.emplace_back([&, rank] {
      Options options;
      options.rank = rank, options.ranks = 2;
      options.goodbye = Ms(50);
      options.encryption = rank == 0 ? one : other;
      try {
        (void)Agreement::make(options, [&](const std::string& mine) { return exchange.gather(rank, mine); }, joined,
                              {});
      } catch (const Disagreement& error) {
        said[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

}  // namespace

TEST(agree_encrypted_nobody_on_the_way_reads_a_frame) {
  Heard plain;
  switchTwice(nullptr, plain);
  CHECK(holds(plain.up, bytesOf(kWord)) && holds(plain.down, bytesOf(kWord)));  // else nothing is shown below
  CHECK(plainFrames(plain.up, kHelloBytes) > 2 && plainFrames(plain.down, kWelcomeBytes) > 2);
  CHECK(plain.connections >= 2);
  for (const auto& encryption : {encryptionWith(0), encryptionWith(7, 5)}) {
    Heard heard;
    switchTwice(encryption, heard);
    CHECK(heard.connections >= 2);
    CHECK(heard.up.size() > plain.up.size() / 4 && heard.down.size() > plain.down.size() / 4);
    for (const std::vector<uint8_t>* way : {&heard.up, &heard.down}) {
      CHECK(!holds(*way, bytesOf(kWord)) && !holds(*way, bytesOf("again")));
      CHECK_EQ(plainFrames(*way, way == &heard.up ? kHelloBytes : kWelcomeBytes), 0U);
    }
  }
}

TEST(agree_encrypted_every_flipped_bit_ends_it) {
  int fds[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  const Fd far(fds[1]);
  Channel sender{Fd(fds[0])};
  const SessionKeys keys = sessionKeys(randomKey(), newHello(5, 3), {randomKey(), 0}, encryptionWith(1).get());
  sender.secure(keys.down, keys.up, kMaxDown);
  Frame frame;
  frame.seq = 1, frame.message.type = Type::Report, frame.message.text = kWord;
  sender.send(frame);
  CHECK(sender.flush());
  std::vector<uint8_t> bytes(1 << 12);
  bytes.resize(static_cast<size_t>(read(far.get(), bytes.data(), bytes.size())));
  std::vector<uint8_t> plain;
  CHECK(openFrame(keys.up, 0, bytes.data(), bytes.size(), plain) != nullptr);
  CHECK(holds(plain, bytesOf(kWord)) && !holds(bytes, bytesOf(kWord)));
  CHECK(openFrame(keys.up, 1, bytes.data(), bytes.size(), plain) == nullptr);    // another place
  CHECK(openFrame(keys.down, 0, bytes.data(), bytes.size(), plain) == nullptr);  // another direction
  for (size_t bit = 0; bit < bytes.size() * 8; bit++) {
    std::vector<uint8_t> wrong = bytes;
    wrong[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    CHECK(openFrame(keys.up, 0, wrong.data(), wrong.size(), plain) == nullptr);
  }
}

TEST(agree_encrypted_keys_are_of_secret_rank_and_connection) {
  const Key door = randomKey(), otherDoor = randomKey();
  const Hello hello = newHello(5, 3);
  const Welcome welcome{randomKey(), 0}, again{randomKey(), 0};
  std::vector<uint8_t> frame(kLengthBytes + 30, 1), plain;
  sealFrame(sessionKeys(door, hello, welcome, encryptionWith(1).get()).up, 0, frame);
  const auto opens = [&](const SessionKeys& keys) {
    return openFrame(keys.up, 0, frame.data(), frame.size(), plain) != nullptr;
  };
  CHECK(opens(sessionKeys(door, hello, welcome, encryptionWith(1).get())));
  CHECK(!opens(sessionKeys(door, hello, welcome, encryptionWith(2).get())));
  CHECK(!opens(sessionKeys(door, hello, welcome, nullptr)));
  CHECK(!opens(sessionKeys(otherDoor, hello, welcome, encryptionWith(1).get())));
  CHECK(!opens(sessionKeys(door, hello, again, encryptionWith(1).get())));
  CHECK(!opens(sessionKeys(door, newHello(5, 3), welcome, encryptionWith(1).get())));
}

TEST(agree_encrypted_ranks_that_differ_never_begin) {
  const std::shared_ptr<const Encryption> none;
  for (const auto& [one, other, says] :
       {std::tuple(none, encryptionWith(0), "R2CC_TLS is not set on rank 0"),
        std::tuple(encryptionWith(0), none, "not set on rank 1"),
        std::tuple(encryptionWith(1, 1), encryptionWith(2, 2), "R2CC_TLS_SECRET_FILE")}) {
    for (const std::string& said : refusals(one, other)) CHECK(said.find(says) != std::string::npos);
  }
}
