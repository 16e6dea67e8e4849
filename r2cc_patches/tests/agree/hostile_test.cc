// Strangers, forgeries and replays: nothing that is not genuine is acted on, and nothing costs much.
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "agree/net/channel.h"
#include "agree/protocol/link.h"
#include "agree/world/proxy.h"
#include "agree/world/world.h"
#include "check.h"

using namespace r2cc;
using namespace r2cc::agree;
using namespace r2cc::agree::test;

namespace {

Message report(const std::string& text) {
  Message message;
  message.type = Type::Report;
  message.text = text;
  return message;
}

struct Ends {
  Ends() {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
      throw std::runtime_error("socketpair");
    near = Fd(fds[0]), far = Fd(fds[1]);
  }
  Fd near, far;
};

/// The bytes of frames on a connection, one after the other.
std::vector<std::vector<uint8_t>> rawFrames(const Key& key, const std::vector<Frame>& frames) {
  Ends ends;
  Channel channel(std::move(ends.near));
  channel.secure(key, key, kMaxUp);
  std::vector<std::vector<uint8_t>> all;
  for (const Frame& frame : frames) {
    channel.send(frame);
    CHECK(channel.flush());
    std::vector<uint8_t> bytes(1 << 17);
    bytes.resize(static_cast<size_t>(read(ends.far.get(), bytes.data(), bytes.size())));
    all.push_back(bytes);
  }
  return all;
}

/// The texts of what is taken when these bytes come over a connection, and "!" when it was given up.
std::string accepted(const Key& key, const std::vector<std::vector<uint8_t>>& pieces) {
  Ends ends;
  Channel channel(std::move(ends.near));
  channel.secure(key, key, kMaxUp);
  for (const auto& bytes : pieces) CHECK(write(ends.far.get(), bytes.data(), bytes.size()) > 0);
  std::string texts;
  for (int i = 0; i < 8; i++) {
    (void)channel.fill();
    while (const auto frame = channel.next()) texts += frame->message.text;
  }
  return texts + (channel.bad() ? "!" : "");
}

/// Remembers where rank 0 is, as the others learn it.
struct Known {
  Card card;
  Setup setup() {
    Setup setup(2);
    setup.bend = [this](Card& root) { card = root; };
    return setup;
  }
};

}  // namespace

TEST(agree_message_whole_and_cut) {
  Message message = report("text");
  message.round = 7, message.group = 1ULL << 40, message.marks = {{64, 1, 2}, {32, 3, 4}};
  const std::vector<uint8_t> bytes = encode(message);
  const auto back = decode(bytes.data(), bytes.size());
  CHECK(back && back->text == "text" && back->group == 1ULL << 40 && back->marks == message.marks);
  for (size_t size = 0; size + 4 < bytes.size(); size++) CHECK(!decode(bytes.data(), size));
  std::vector<uint8_t> wrong = bytes;
  wrong[0] = kTypes;
  CHECK(!decode(wrong.data(), wrong.size()));
}

TEST(agree_message_the_longest_fit) {
  Message offer;
  offer.type = Type::Offer;
  offer.text.assign(kMaxProposal, 'x');
  CHECK(encode(offer).size() <= kMaxDown);
  Message promised = report(std::string(kMaxReport, 'x'));
  promised.marks.assign(History::kMarks, {});
  CHECK(encode(promised).size() <= kMaxUp);
}

TEST(agree_card_whole_and_broken) {
  Card card;
  card.host = "fe80::1%eth0", card.port = 4711, card.where = "here", card.agreement = 9, card.key[3] = 5;
  card.cannot = "no descriptor", card.terms = "R2CC_MODE 3";
  const std::string text = encode(card);
  const Card back = decodeCard(text);
  CHECK_EQ(back.host, card.host);
  CHECK_EQ(back.where, "here");
  CHECK_EQ(back.cannot, "no descriptor");
  CHECK_EQ(back.terms, card.terms);
  CHECK_EQ(back.port, 4711);
  CHECK(back.key == card.key);
  const std::string cut = text.substr(0, text.size() - card.terms.size() - 1);
  for (const std::string& wrong : {std::string(), text.substr(0, 20), "x" + text, text.substr(0, 33), cut}) {
    CHECK(THROWN(std::runtime_error, decodeCard(wrong)).find("same version") != std::string::npos);
  }
}

TEST(agree_secrets_every_flipped_bit_is_noticed) {
  const Key door = doorKey(randomKey(), 5, 3);
  const Hello hello = newHello(5, 3);
  const std::vector<uint8_t> said = seal(hello, door);
  const Welcome welcome{randomKey(), 12};
  const std::vector<uint8_t> answered = seal(hello, welcome, door);
  CHECK_EQ(said.size(), kHelloBytes);
  CHECK_EQ(answered.size(), kWelcomeBytes);
  CHECK(readHello(said.data(), 5) && genuine(said.data(), door));
  const auto back = readWelcome(answered.data(), hello, door);
  CHECK(back && back->received == 12);
  CHECK(!readWelcome(answered.data(), newHello(5, 3), door));  // the answer to another greeting
  CHECK(!genuine(said.data(), doorKey(randomKey(), 5, 3)));
  for (size_t bit = 0; bit < 8 * said.size(); bit++) {
    std::vector<uint8_t> wrong = said;
    wrong[bit / 8] = static_cast<uint8_t>(wrong[bit / 8] ^ 1U << bit % 8);
    CHECK(!genuine(wrong.data(), door));
  }
  for (size_t bit = 0; bit < 8 * answered.size(); bit++) {
    std::vector<uint8_t> wrong = answered;
    wrong[bit / 8] = static_cast<uint8_t>(wrong[bit / 8] ^ 1U << bit % 8);
    CHECK(!readWelcome(wrong.data(), hello, door));
  }
}

TEST(agree_secrets_each_direction_connection_and_rank_has_its_own_keys) {
  const Key key = randomKey();
  const Hello one = newHello(5, 3), other = newHello(5, 3);
  const Welcome welcome{randomKey(), 0}, again{randomKey(), 0};
  const Key door = doorKey(key, 5, 3);
  const SessionKeys keys = sessionKeys(door, one, welcome, nullptr);
  CHECK(keys.up.key != keys.down.key);
  CHECK(keys.up.key != sessionKeys(door, other, welcome, nullptr).up.key);
  CHECK(keys.up.key != sessionKeys(door, one, again, nullptr).up.key);
  CHECK(door != doorKey(key, 5, 4) && door != doorKey(key, 6, 3));
  const std::vector<uint8_t> text(100, 1);
  CHECK(frameTag(key, 1, text.data(), 100) != frameTag(key, 2, text.data(), 100));
}

TEST(agree_link_every_message_once_and_in_order) {
  Link sender, receiver;
  const Frame first = sender.add(report("1")), second = sender.add(report("2"));
  CHECK(receiver.receive(second) == Link::Verdict::Gap);
  CHECK(receiver.receive(first) == Link::Verdict::Take);
  CHECK(receiver.receive(first) == Link::Verdict::Known);
  CHECK(sender.receive(receiver.ping()) == Link::Verdict::Known);
  CHECK_EQ(sender.unacknowledged().size(), 1U);
  CHECK(receiver.receive(sender.unacknowledged()[0]) == Link::Verdict::Take);
  CHECK(sender.acknowledge(receiver.received()) && sender.allAcknowledged());
  CHECK(!sender.acknowledge(3));  // what was never sent
}

TEST(agree_hostile_noise_is_hung_up_on) {
  Known known;
  World world(known.setup());
  std::mt19937_64 random(std::random_device{}());
  for (const size_t size : {1U, 10U, 48U, 49U, 500U, 100000U}) {
    std::vector<uint8_t> noise(size);
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
    Stranger stranger(known.card);
    stranger.say(noise);
    if (size >= kHelloBytes) CHECK(stranger.hungUp());
  }
  CHECK(world[0].stats().refused >= 3);
  const std::string said = world.logged();
  CHECK(said.find("not genuine were refused") != std::string::npos);
  CHECK_EQ(said.find("not genuine were refused"), said.rfind("not genuine were refused"));  // once
  world[1].report("x");
  world.enterUntil(1);
  CHECK(world.consistent());
}

TEST(agree_hostile_a_wrong_key_gets_no_answer) {
  Known known;
  World world(known.setup());
  Card wrong = known.card;
  wrong.key[0] ^= 1;
  for (const uint32_t rank : {0U, 1U, 2U, 77U}) {
    Stranger stranger(known.card);
    stranger.say(seal(newHello(wrong.agreement, rank), doorKey(wrong.key, wrong.agreement, rank)));
    CHECK(stranger.hear(1).empty());
  }
  // The right key does not make a rank of somebody who is none.
  Stranger stranger(known.card);
  stranger.say(seal(newHello(known.card.agreement, 2), doorKey(known.card.key, known.card.agreement, 2)));
  CHECK(stranger.hear(1).empty());
  CHECK(eventually([&] { return world[0].stats().refused >= 5; }));
}

TEST(agree_hostile_a_repeated_greeting_displaces_nobody) {
  Proxy proxy;
  Card door;
  Setup setup(2);
  setup.bend = [&](Card& card) { door = card, proxy.bend(card); };
  World world(setup);
  world[1].report("a");
  world.enterUntil(1);
  const std::vector<uint8_t> all = proxy.heard().at(0);
  for (int i = 0; i < 3; i++) {
    Stranger replay(door);
    replay.say({all.begin(), all.begin() + kHelloBytes});
    CHECK_EQ(replay.hear(kWelcomeBytes).size(), kWelcomeBytes);  // genuine enough for an answer, not for more
    replay.say({all.begin() + kHelloBytes, all.end()});          // and all that followed
    CHECK(replay.hungUp());
  }
  CHECK_EQ(world[1].stats().reconnects, 0U);
  world[1].report("b");
  world.enterUntil(2);
  CHECK(world.consistent());
  CHECK_EQ(world[1].stats().reconnects, 0U);
}

TEST(agree_hostile_changed_bytes_end_the_connection_and_are_never_acted_on) {
  Proxy proxy;
  Setup setup(2);
  setup.bend = [&](Card& card) { proxy.bend(card); };
  setup.tune = [](Options& options) {
    options.gather = options.quiet = Ms(2);
    options.silence = Ms(100);  // a changed length may leave it waiting for what never comes
  };
  std::mt19937_64 random(std::random_device{}());
  std::atomic<int> changed{0};
  std::atomic<bool> spoiling{true};
  proxy.spoil = [&](bool, std::vector<uint8_t>& bytes) {
    if (!spoiling || random() % 4 != 0) return;
    changed++;
    bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 + random() % 255);
  };
  World world(setup);
  for (uint64_t i = 1; i <= 4; i++) {
    world[1].report("r" + std::to_string(i));
    std::thread calm([&] {
      std::this_thread::sleep_for(Ms(60));
      spoiling = false;
    });
    world.enterUntil(i);
    calm.join();
    spoiling = true;
    CHECK_EQ(world.seen(0).back(), std::to_string(i) + "r" + std::to_string(i));
  }
  CHECK(world.consistent());
  CHECK(changed > 0);
  CHECK(world[0].stats().refused + world[1].stats().refused > 0);
}

TEST(agree_hostile_a_frame_repeated_left_out_or_changed_is_not_genuine) {
  const Key key = randomKey();
  Link link;
  std::vector<Frame> frames;
  for (const char* text : {"1", "2", "3"}) frames.push_back(link.add(report(text)));
  const std::vector<std::vector<uint8_t>> raw = rawFrames(key, frames);
  CHECK_EQ(accepted(key, {raw[0], raw[1], raw[2]}), "123");
  CHECK_EQ(accepted(key, {raw[0], raw[0], raw[1]}), "1!");
  CHECK_EQ(accepted(key, {raw[0], raw[2]}), "1!");
  CHECK_EQ(accepted(key, {raw[1]}), "!");
  CHECK_EQ(accepted(randomKey(), {raw[0]}), "!");
  for (size_t at = 0; at < raw[0].size(); at++) {
    std::vector<uint8_t> wrong = raw[0];
    wrong[at] ^= 0x10;
    CHECK(accepted(key, {wrong, raw[1]}).find_first_of("12") == std::string::npos);
  }
  CHECK_EQ(accepted(key, {{0, 0, 0, 0}}), "!");
  CHECK_EQ(accepted(key, {{0xff, 0xff, 0, 0}}), "!");  // longer than any
  const std::vector<std::vector<uint8_t>> tooLong = rawFrames(key, {{1, 0, report(std::string(kMaxUp, 'x'))}});
  CHECK_EQ(accepted(key, tooLong), "!");
}

TEST(agree_hostile_silent_callers_and_a_flood_hold_nobody_up) {
  Known known;
  Setup setup = known.setup();
  World world(setup);
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < 200; i++) {
    silent.push_back(std::make_unique<Stranger>(known.card));
    silent.back()->say({1, 2, 3});
  }
  world[1].report("x");
  world.enterUntil(1);
  CHECK(world.consistent());
  // Of those who say nothing whole, at most 64 are held, and as many as there are other ranks.
  CHECK(eventually([&] { return world[0].stats().refused >= 135; }, Ms(2000)));
}
