// Meeting, gathering, and ending together, with strangers at the door.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "bench/errors.h"
#include "bench/ranks/bootstrap.h"
#include "bench/support/ports.h"
#include "check.h"

using namespace r2cc::bench;
using r2cc::test::freePort;
using r2cc::test::stranger;

namespace {

Options optionsOf(int rank, int ranks, uint16_t port) {
  Options options;
  options.rank = rank;
  options.ranks = ranks;
  options.rootAddress = "127.0.0.1";
  options.rootPort = port;
  options.timeoutS = 10;
  options.nonce = "this run";
  return options;
}

// Runs `body` as every rank; returns what each threw ("" if nothing).
template <typename Body>
std::vector<std::string> asRanks(int ranks, uint16_t port, const Body& body) {
  std::vector<std::future<std::string>> results;
  results.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; rank++) {
    results.push_back(std::async(std::launch::async, [=]() -> std::string {
      try {
        Bootstrap bootstrap(optionsOf(rank, ranks, port));
        body(rank, bootstrap);
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    }));
  }
  std::vector<std::string> messages;
  messages.reserve(results.size());
  for (auto& result : results) messages.push_back(result.get());
  return messages;
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST(frames_come_together_from_single_bytes) {
  FrameReader reader(100);
  const std::string bytes = encodeFrame(FrameType::Gather, "abc") + encodeFrame(FrameType::Fail, "");
  std::vector<Frame> frames;
  for (const char byte : bytes) {
    reader.feed(&byte, 1);
    while (auto frame = reader.next()) frames.push_back(*frame);
  }
  CHECK_EQ(frames.size(), 2U);
  CHECK(frames.at(0).type == FrameType::Gather && frames.at(0).payload == "abc");
  CHECK(frames.at(1).type == FrameType::Fail && frames.at(1).payload.empty());
}

TEST(hostile_frames_are_refused_at_once) {
  const auto feed = [](const std::string& bytes) {
    FrameReader reader(64);
    reader.feed(bytes.data(), bytes.size());
    (void)reader.next();
  };
  CHECK(!THROWN(ProtocolError, feed("GET / HTTP/1.1\r\n")).empty());
  CHECK(!THROWN(ProtocolError, feed("GET ")).empty());  // judged without waiting for a header's length
  std::string huge = encodeFrame(FrameType::Hello, "");
  huge[15] = '\x7f';  // length of 2^62: never allocated
  CHECK(!THROWN(ProtocolError, feed(huge)).empty());
  std::string strange = encodeFrame(FrameType::Hello, "");
  strange[4] = 99;
  CHECK(!THROWN(ProtocolError, feed(strange)).empty());
  CHECK(!THROWN(ProtocolError, feed(encodeFrame(FrameType::Hello, std::string(65, 'x')))).empty());
}

TEST(lists_that_lie_about_lengths_are_refused) {
  const std::string items[2] = {"one", ""};
  const std::string good = encodeList(items, 2);
  std::string back[2];
  decodeList(good, back, 2);
  CHECK(back[0] == "one" && back[1].empty());
  CHECK(!THROWN(ProtocolError, decodeList(good.substr(0, good.size() - 1), back, 2)).empty());
  CHECK(!THROWN(ProtocolError, decodeList(good + "x", back, 2)).empty());
  std::string lying = good;
  lying[7] = '\x7f';
  CHECK(!THROWN(ProtocolError, decodeList(lying, back, 2)).empty());
  CHECK(!THROWN(ProtocolError, decodeHello("short")).empty());
}

TEST(all_ranks_gather_the_same_in_order) {
  std::atomic<int> right{0};
  const auto messages = asRanks(5, freePort(), [&](int rank, Bootstrap& bootstrap) {
    const auto all = bootstrap.allGather(std::string(static_cast<size_t>(rank) * 1000, static_cast<char>('a' + rank)));
    for (size_t r = 0; r < all.size(); r++) {
      if (all[r] == std::string(r * 1000, static_cast<char>('a' + r))) right++;
    }
    for (int i = 0; i < 50; i++) bootstrap.barrier();
  });
  for (const std::string& message : messages) CHECK_EQ(message, std::string());
  CHECK_EQ(right.load(), 25);
}

TEST(strangers_and_garbage_do_not_disturb_the_meeting) {
  const uint16_t port = freePort();
  std::atomic<int> turnedAway{0};
  auto noise = std::async(std::launch::async, [port] {
    std::vector<r2cc::Fd> open;
    open.push_back(stranger(port, ""));  // says nothing, stays
    open.push_back(stranger(port, "GET / HTTP/1.1\r\n\r\n"));
    open.push_back(stranger(port, std::string(100'000, '\xff')));
    open.push_back(stranger(port, encodeFrame(FrameType::Hello, "short")));
    open.push_back(stranger(port, encodeFrame(FrameType::Gather, "")));
    open.push_back(
        stranger(port, encodeFrame(FrameType::Hello, encodeHello({kProtocolVersion, 1, 3, 0, nonceOf("another")}))));
    open.push_back(stranger(port, encodeFrame(FrameType::Hello, encodeHello({99, 1, 3, 0, nonceOf("this run")}))));
    open.push_back(
        stranger(port, encodeFrame(FrameType::Hello, encodeHello({kProtocolVersion, 0, 3, 0, nonceOf("this run")}))));
    open.push_back(
        stranger(port, encodeFrame(FrameType::Hello, encodeHello({kProtocolVersion, 77, 3, 0, nonceOf("this run")}))));
    {
      const r2cc::Fd gone = stranger(port, "R2");
    }
    return open;
  });
  std::vector<std::string> messages;
  auto late = std::async(std::launch::async, [&] {
    Bootstrap root(optionsOf(0, 3, port));
    root.barrier();
    turnedAway = root.turnedAway();
  });
  const auto connections = noise.get();  // all have spoken before the first real rank comes
  std::vector<std::future<void>> peers;
  for (int rank = 1; rank < 3; rank++) {
    peers.push_back(std::async(std::launch::async, [rank, port] { Bootstrap(optionsOf(rank, 3, port)).barrier(); }));
  }
  late.get();
  for (auto& peer : peers) peer.get();
  CHECK(turnedAway.load() >= 7);  // the silent one may still be waiting
}

TEST(a_rank_started_with_other_ranks_is_told_why) {
  const uint16_t port = freePort();
  auto root = std::async(std::launch::async, [port] { Bootstrap(optionsOf(0, 2, port)).barrier(); });
  const std::string message = THROWN(TransportError, Bootstrap(optionsOf(1, 4, port)));
  CHECK(message.find("--ranks 4") != std::string::npos);
  Bootstrap(optionsOf(1, 2, port)).barrier();
  root.get();
}

TEST(a_second_rank_of_the_same_number_is_turned_away) {
  const uint16_t port = freePort();
  auto root = std::async(std::launch::async, [port] { Bootstrap(optionsOf(0, 3, port)).barrier(); });
  auto first = std::make_unique<Bootstrap>(optionsOf(1, 3, port));
  CHECK(THROWN(TransportError, Bootstrap(optionsOf(1, 3, port))).find("taken") != std::string::npos);
  auto second = std::async(std::launch::async, [port] { Bootstrap(optionsOf(2, 3, port)).barrier(); });
  first->barrier();
  second.get();
  root.get();
}

TEST(a_dead_rank_ends_all_others_at_once_and_is_named) {
  const auto start = std::chrono::steady_clock::now();
  const auto messages = asRanks(4, freePort(), [](int rank, Bootstrap& bootstrap) {
    bootstrap.barrier();
    if (rank == 2) return;  // its connection closes: what a killed process leaves
    try {
      bootstrap.barrier();
    } catch (const TransportError& error) {
      bootstrap.fail(error.what());  // as main() does
      throw;
    }
  });
  CHECK_EQ(messages[2], std::string());
  for (const size_t rank : {0U, 1U, 3U}) CHECK(messages[rank].find("rank 2 died") != std::string::npos);
  CHECK(secondsSince(start) < 5.0);
}

TEST(a_dead_root_ends_all_others) {
  const auto messages = asRanks(3, freePort(), [](int rank, Bootstrap& bootstrap) {
    bootstrap.barrier();
    if (rank != 0) bootstrap.barrier();
  });
  CHECK_EQ(messages[0], std::string());
  for (const size_t rank : {1U, 2U}) CHECK(messages[rank].find("rank 0 died") != std::string::npos);
}

TEST(a_failing_rank_tells_the_others_why) {
  const auto messages = asRanks(3, freePort(), [](int rank, Bootstrap& bootstrap) {
    bootstrap.barrier();
    if (rank == 1) {
      bootstrap.fail("eth3 is on fire");
      return;
    }
    try {
      bootstrap.barrier();
    } catch (const TransportError& error) {
      bootstrap.fail(error.what());
      throw;
    }
  });
  for (const size_t rank : {0U, 2U}) CHECK(messages[rank].find("eth3 is on fire") != std::string::npos);
}

TEST(missing_ranks_are_named_after_the_timeout) {
  Options alone = optionsOf(0, 3, freePort());
  alone.timeoutS = 1;
  CHECK(THROWN(TransportError, Bootstrap{alone}).find("missing: 1, 2") != std::string::npos);
  Options lost = optionsOf(1, 3, freePort());
  lost.timeoutS = 1;
  CHECK(THROWN(TransportError, Bootstrap{lost}).find("cannot reach rank 0") != std::string::npos);
}

TEST(the_root_address_must_be_numeric) {
  Options named = optionsOf(0, 2, 1);
  named.rootAddress = "some.host";
  CHECK(THROWN(UsageError, Bootstrap{named}).find("some.host") != std::string::npos);
}

TEST(while_data_moves_the_net_alone_may_tell) {
  for (const ToldBy by : {ToldBy::All, ToldBy::Net}) {
    const uint16_t port = freePort();
    const auto made = [port, by](int rank) {
      Options options = optionsOf(rank, 2, port);
      options.toldBy = by;
      options.timeoutS = 2;
      return Bootstrap(options);
    };
    auto gone = std::async(std::launch::async, [&] { made(1).barrier(); });  // its connection closes then
    Bootstrap root = made(0);
    root.barrier();
    gone.get();
    int never[2];
    CHECK_EQ(pipe(never), 0);
    const std::string told = THROWN(TransportError, root.waitFor(never[0], [] { return 0; }));
    CHECK(told.find(by == ToldBy::All ? "rank 1 died" : "no progress for 2 s") != std::string::npos);
    CHECK(THROWN(TransportError, root.barrier()).find("rank 1 died") != std::string::npos);
    (void)close(never[0]), (void)close(never[1]);
  }
}
